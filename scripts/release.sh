#!/bin/sh
# Collects a release in a folder, and checks it: release.sh PYTHON DIST FOLDER
#
# From DIST come the sdist, the wheels and the file of `make onefile`. Added are a list of all components (CycloneDX), the
# notes of this version from the changelog, and checksums. Nothing is uploaded.
set -eu

python=$1
dist=$2
folder=$3
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
stop() {
    echo "$1" >&2
    exit 1
}

[ -z "$(git status --porcelain --untracked-files=no)" ] ||
    stop "There are changes that are not committed, so the release would be of no commit; commit them and run make release again."
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' kforensics/version.py)
rm -rf "$folder"
mkdir -p "$folder"
cp "$dist"/other/*.whl "$dist"/*.whl "$dist"/*.tar.gz "$dist"/*.pyz "$folder"
for file in "$folder"/*; do
    case $file in
    */"kforensics-$version"[-.]*) ;;
    *) stop "$file is not of version $version, which kforensics/version.py names; run make clean and make release." ;;
    esac
done

# Twice the same bytes, or whoever builds it again cannot tell whether an archive is that of the commit.
PIP_CONSTRAINT=constraints.txt "$python" -P -m build --outdir "$place" >/dev/null
for file in "$place"/*; do
    cmp "$file" "$folder/$(basename "$file")"
done

"$python" -P -m venv --without-pip "$place/environment"
"$python" -P -m pip --python "$place/environment/bin/python" --disable-pip-version-check install --quiet \
    --constraint constraints.txt "$(echo "$dist"/*.whl)"
# That of the sdist has the version.
tar --extract --gzip --to-stdout --wildcards --file "$(echo "$dist"/*.tar.gz)" '*/pyproject.toml' >"$place/pyproject.toml"
"$python" -P -m cyclonedx_py environment "$place/environment/bin/python" --pyproject "$place/pyproject.toml" \
    --output-reproducible --validate --output-format JSON --output-file "$folder/kforensics-$version.cdx.json"

awk -v heading="## [$version]" 'index($0, "## [") == 1 { inside = index($0, heading) == 1; next } inside' CHANGELOG.md |
    sed '/./,$!d' >"$folder/RELEASE_NOTES.md"
[ -s "$folder/RELEASE_NOTES.md" ] || stop "CHANGELOG.md has nothing about version $version."

"$python" -P -m twine check --strict "$folder"/*.whl "$folder"/*.tar.gz
"$python" -P -m check_wheel_contents "$folder"/*.whl
(cd "$folder" && LC_ALL=C && export LC_ALL && sha256sum -- * >"$place/SHA256SUMS" && mv "$place/SHA256SUMS" .)
chmod -R u=rwX,go=rX "$folder"
echo "$folder is version $version at commit $(git rev-parse --short HEAD)"
