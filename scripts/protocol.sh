#!/bin/sh
# Makes sidecar/gapless_pb2.py and its types from protocol/gapless.proto, or into the folder given.
# They are committed, so that neither a clone nor a wheel needs the compiler; a test holds that they
# are what this makes.
set -eu
cd "$(dirname "$0")/.."
out=${1:-sidecar}
.venv/bin/python -m grpc_tools.protoc --proto_path=protocol --python_out="$out" --pyi_out="$out" gapless.proto
