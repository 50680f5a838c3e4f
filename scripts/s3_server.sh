#!/bin/sh
# Prints the path of an S3 server for the tests, which is built with Go into .lab/ unless it exists.
#
# If something is missing it prints one sentence and exits with 1; the tests that need the server are then skipped.
set -eu

module=github.com/versity/versitygw
version=v1.8.0
root=$(cd "$(dirname "$0")/.." && pwd)
folder=$root/.lab/versitygw-$version

stop() {
    echo "$1; the tests that need an S3 server are left out." >&2
    exit 1
}

if [ ! -x "$folder/versitygw" ]; then
    command -v go >/dev/null 2>&1 || stop "There is no Go here to build $module with"
    mkdir -p "$folder"
    part=$(mktemp -d "$folder/part.XXXXXX")
    trap 'rm -rf "$part"' EXIT
    echo "Building $module $version, once, about a minute." >&2
    GOBIN=$part CGO_ENABLED=0 go install -trimpath "$module/cmd/versitygw@$version" >"$part/log" 2>&1 ||
        stop "Go could not build $module $version: $(tail -n 1 "$part/log")"
    mv "$part/versitygw" "$folder/versitygw"
fi
echo "$folder/versitygw"
