#!/bin/sh
# Prints the path of a Chromium in which the tests open reports: chromium.sh PYTHON
#
# Takes the one of the machine, or of KFORENSICS_CHROMIUM; else the one that playwright downloads; else, as root, the
# package of the system. Where none of this works it says so in one sentence, and the exit code is 1; the tests that need
# it then leave themselves out.
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
    # A headless shell lies beside the browser that was not asked for.
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
