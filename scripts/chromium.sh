#!/bin/sh
# Prints the path of the Chromium in which the tests open reports: chromium.sh PYTHON
#
# Uses the one named by KFORENSICS_CHROMIUM or installed on the machine; otherwise the one that playwright downloads;
# otherwise, as root, the system package. If none is available it prints one sentence and exits with 1; the tests that
# need Chromium are then skipped.
set -eu

python=$1

from_machine() {
    for name in "${KFORENSICS_CHROMIUM:-}" chromium-headless-shell chromium chromium-browser google-chrome; do
        [ -n "$name" ] && command -v "$name" && return
    done
    return 0
}

from_playwright() {
    "$python" -c '
from pathlib import Path
from playwright.sync_api import sync_playwright
with sync_playwright() as started:
    path = Path(started.chromium.executable_path)
    # The headless shell is next to the full browser, which was not requested.
    shells = sorted(path.parents[2].glob("chromium_headless_shell-*/*/*headless*shell*"))
    print(path if path.exists() else shells[-1] if shells else "", end="")
' 2>/dev/null || true
}

downloaded() {
    "$python" -m playwright install --only-shell chromium >/dev/null 2>&1 || return 0
    from_playwright
}

from_system() {
    [ "$(id -u)" -eq 0 ] || return 0
    if command -v apt-get; then
        apt-get update -q
        apt-get install -qy --no-install-recommends chromium-headless-shell || apt-get install -qy chromium
    elif command -v dnf; then
        dnf install -qy chromium-headless
    elif command -v apk; then
        apk add --quiet chromium
    fi >/dev/null 2>&1 || return 0
    from_machine
}

found=$(from_machine)
[ -n "$found" ] || found=$(from_playwright)
if [ -z "$found" ]; then
    echo "There is no Chromium here; installing one for the tests of reports." >&2
    found=$(downloaded)
fi
[ -n "$found" ] || found=$(from_system)
if [ -z "$found" ]; then
    echo "There is no Chromium here and none could be installed; name one in KFORENSICS_CHROMIUM, or reports are not opened by the tests." >&2
    exit 1
fi
echo "$found"
