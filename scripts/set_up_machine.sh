#!/bin/sh
# Installs what make does not install itself, on Debian 12, Ubuntu 24.04 or newer: set_up_machine.sh. Asks sudo unless root.
set -eu

sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
$sudo apt-get update
# gcc links the compiled kernels; the default Java is 17 or newer.
$sudo apt-get install --yes --no-install-recommends \
    ca-certificates default-jre-headless gcc git make python3 python3-dev python3-venv
echo "Ready for: make test"
