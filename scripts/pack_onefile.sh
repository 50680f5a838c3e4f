#!/bin/sh
# Packs the wheel with all that it needs, except Python, into one file: pack_onefile.sh PYTHON WHEEL FOLDER
#
# The file is for this release of Python and this platform, which its name has; the same inputs give the same bytes.
set -eu

python=$1
wheel=$2
folder=$3
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

packages=$place/packages
# -P: a checkout has modules of the same names.
"$python" -P -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt \
    --target "$packages" "$wheel"
# What nothing here imports. Arrow's Flight is a server, a sixth of the whole. crcmod's library, which only tests use,
# is compiled on this machine and never twice the same; without it crcmod is pure Python.
rm -rf "$packages"/bin "$packages"/pyarrow/tests "$packages"/pyarrow/include "$packages"/pyarrow/src \
    "$packages"/pyarrow/*flight*.so* "$packages"/crcmod/*.so "$packages"/*.dist-info/RECORD
find "$packages" -path '*/numpy/*/tests' -prune -exec rm -rf {} +
find "$packages" -type f -exec chmod u=rwX,go=rX {} +

name=$("$python" -P -c 'import sys, sysconfig; print("py%d%d-%s" % (*sys.version_info[:2], sysconfig.get_platform()))')
release=$("$python" -P -c 'import sys; print("%d.%d" % sys.version_info[:2])')
sed "s/@RELEASE@/$release/" scripts/onefile_release.py >"$place/release.py"
file=$folder/$(basename "$wheel" | cut -d - -f 1-2)-$name.pyz
"$python" -P -m shiv --site-packages "$packages" --console-script kforensics --preamble "$place/release.py" \
    --python "/usr/bin/env python$release" --compile-pyc --reproducible --output-file "$file"
echo "$file is for Python $release, with $(($(wc -c <"$file") / 1000000)) MB"
