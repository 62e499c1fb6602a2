#!/bin/sh
# What a user installs, tried as a user would: the sdist is built, the wheel is built from the sdist
# in a build environment of its own, installed into a clean venv, and used from an empty directory.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

python=$root/.venv/bin/python
pip="-m pip --disable-pip-version-check --quiet"
pins="--constraint $root/constraints.txt"
build_pins="--build-constraint $root/constraints.txt"

"$python" -c 'import sys, scikit_build_core.build as b; b.build_sdist(sys.argv[1])' "$work" >&2
"$python" $pip wheel --no-deps $build_pins --wheel-dir "$work" "$work"/*.tar.gz
"$python" -m venv "$work/venv"
"$work/venv/bin/python" $pip install --upgrade $pins pip
# --no-compile: of ten thousand modules a fifth is imported, and compiled then.
"$work/venv/bin/python" $pip install --no-compile $pins $build_pins "$work"/*.whl

mkdir "$work/empty"
cd "$work/empty"
# -I: neither this directory nor the environment adds anything to what can be imported.
"$work/venv/bin/python" -I "$root/scripts/wheel_smoke.py" "$root" "$work"/*.tar.gz
