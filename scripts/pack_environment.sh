#!/bin/sh
# Packs an environment for the workers of a Spark cluster: pack_environment.sh PYTHON WHEEL ARCHIVE
#
# It contains the package with its compiled kernels, and its dependencies; neither Spark, which workers have, nor Python
# itself, which every worker must have at the same path as this machine.
set -eu

python=$1
wheel=$2
archive=$3
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

"$python" -m venv "$place/environment"
inside=$place/environment/bin/python
"$inside" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt "$wheel" pandas
"$inside" -m pip uninstall --quiet --yes pip setuptools 2>/dev/null || true
# Ends with 1 if there are no kernels; -P because a checkout has modules of the same names.
env -u KFORENSICS_CACHE_DIR -u KFORENSICS_PORTABLE_KERNELS "$inside" -P -m kforensics.parsers.kernels
tar --create --gzip --file "$archive" --directory "$place/environment" .
echo "$archive is for $("$inside" -P -c 'import platform, sys; print(sys.base_prefix, platform.python_version(), platform.machine())')"
