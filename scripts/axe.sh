#!/bin/sh
# Prints the path of axe-core, with which the tests examine how accessible a report is: axe.sh FOLDER
#
# Uses the file named by KFORENSICS_AXE; otherwise npm installs the version below into FOLDER. If it is not available the
# script prints one sentence and exits with 1; the tests that need it are then skipped.
set -eu

folder=$1
version=4.10.3

if [ -n "${KFORENSICS_AXE:-}" ]; then
    if [ ! -f "$KFORENSICS_AXE" ]; then
        echo "KFORENSICS_AXE is $KFORENSICS_AXE, which is no file; name the file axe.min.js of axe-core." >&2
        exit 1
    fi
    echo "$KFORENSICS_AXE"
    exit
fi
if ! command -v npm >/dev/null; then
    echo "There is no npm here, which installs axe-core; install npm or name axe.min.js in KFORENSICS_AXE." >&2
    exit 1
fi
found=$folder/node_modules/axe-core/axe.min.js
if ! npm install --silent --no-save --no-audit --no-fund --ignore-scripts --fetch-retries=0 --fetch-timeout=20000 \
    --prefix "$folder" "axe-core@$version" >/dev/null 2>&1 ||
    [ ! -f "$found" ]; then
    echo "npm could not install axe-core $version; check its registry or name axe.min.js in KFORENSICS_AXE." >&2
    exit 1
fi
echo "$found"
