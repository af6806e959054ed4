#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: release.sh VENV
# Makes dist/: wheel, source distribution, bill of materials, checksums; each checked from an empty environment.
# Publishes nothing: it ends by saying how.
set -eu

venv=$1
refuse() { # reason what-to-do
  printf 'no release: %s\n  do: %s\n' "$1" "$2" >&2
  exit 1
}
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' sdk/mlf_sdk/version.py)
[ -z "$(git status --porcelain)" ] || refuse "files are changed or new" "commit them; a release is made of a commit"
grep -Eq "^## \[$version\] - [0-9]{4}-[0-9]{2}-[0-9]{2}$" CHANGELOG.md ||
  refuse "CHANGELOG.md has no dated section of $version" "date it: ## [$version] - $(date +%F)"
! git rev-parse -q --verify "refs/tags/v$version" >/dev/null ||
  refuse "v$version is tagged already" "raise __version__ in sdk/mlf_sdk/version.py"
grep -q "^version: $version$" CITATION.cff || refuse "CITATION.cff has another version" "version: $version"
"$venv/bin/python" tests/package/test_api.py | cmp -s - tests/package/api.json ||
  refuse "tests/package/api.json is not this release's API" \
    "$venv/bin/python tests/package/test_api.py > tests/package/api.json, and read its difference"

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
rm -rf dist
"$venv/bin/python" -m hatchling build -t sdist -t wheel
"$venv/bin/python" -m twine check --strict dist/*

clean=$(mktemp -d)
trap 'rm -rf "$clean"' EXIT
python3 -m venv "$clean/venv"
"$clean/venv/bin/pip" install -q --disable-pip-version-check "dist/mlf_sdk-$version-py3-none-any.whl"
"$venv/bin/python" -m cyclonedx_py environment --output-reproducible --of JSON \
  -o "dist/mlf_sdk-$version.cdx.json" "$clean/venv/bin/python"
cp examples/digits/digits-graph-tvm0.11.1.tar examples/digits/test.npz "$clean"
(
  cd "$clean"
  [ "$(venv/bin/mlf-sdk --version)" = "mlf-sdk $version" ] || refuse "the wheel is not $version" "make clean"
  venv/bin/mlf-sdk run digits-graph-tvm0.11.1.tar --board mps2-an386 --inputs test.npz --expect test.npz --twin
)
(cd dist && sha256sum mlf_sdk-* >SHA256SUMS && cat SHA256SUMS)
cat <<END
Checked. To publish: git tag -s v$version && git push origin v$version && $venv/bin/python -m twine upload dist/*.whl dist/*.tar.gz
Then raise __version__ for what comes next, and begin a section "[Unreleased]".
END
