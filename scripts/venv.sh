#!/bin/sh
# Creates the environment: venv.sh PYTHON FOLDER. Needs only that Python; prints one sentence if something is missing.
set -eu

python=$1
folder=$2

stop() {
    echo "$1" >&2
    exit 1
}

command -v "$python" >/dev/null 2>&1 ||
    stop "There is no $python here; install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3.11 ..."

"$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 15))' ||
    stop "kforensics needs Python 3.11 to 3.15 and $python is $("$python" -V 2>&1); name another: make PYTHON=python3.11 ..."

"$python" -c 'import ensurepip, venv' 2>/dev/null ||
    stop "$("$python" -V) came without ensurepip, so it cannot make an environment; install it (Debian, Ubuntu: apt-get install python3-venv) and run make again."

rm -rf "$folder"
"$python" -m venv "$folder"
