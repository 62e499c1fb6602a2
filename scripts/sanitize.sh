#!/bin/sh
# The kernel's tests on a native module built with the address and undefined-behaviour sanitizers:
# a read past a buffer, a use after free, an overflow or a bad shift ends the run with its stack.
# The module is built apart, into build/sanitize; what is installed in .venv is not touched.
set -eu
cd "$(dirname "$0")/.."
python=$PWD/.venv/bin/python
out=build/sanitize

export CXX="${CXX:-g++}"
if ! asan=$("$CXX" -print-file-name=libasan.so 2>/dev/null) || [ ! -e "$asan" ]; then
    echo "make sanitize needs g++ with its sanitizers: install g++, or name one, as in CXX=g++-14" >&2
    exit 1
fi
ubsan=$("$CXX" -print-file-name=libubsan.so)
# libstdc++ comes along because the sanitizer looks for its `throw` before Python loads it.
stdlib=$("$CXX" -print-file-name=libstdc++.so)

rm -rf "$out/wheel"
"$python" -m pip --disable-pip-version-check wheel --quiet --no-deps --no-build-isolation \
    --config-settings=build-dir="$out/cmake" \
    --config-settings=cmake.build-type=RelWithDebInfo \
    --config-settings=cmake.define.GAPLESS_SANITIZE=ON \
    --config-settings=install.strip=false \
    --wheel-dir "$out/wheel" .
"$python" -m zipfile --extract "$out"/wheel/*.whl "$out/wheel"

# 600 s: what hangs under the sanitizers must not hang the check; the tests take half a minute.
# detect_leaks=0: Python and its extensions keep what they need until the process ends, and free
#   none of it; the kernel's own tests hold that it gives memory back.
# abort_on_error=1: the end is then a signal, on which Python says which test it was in.
# PYTHONMALLOC, ARROW_DEFAULT_MEMORY_POOL: buffers come from malloc one by one, so that reading
#   past the end of one is seen, which it is not inside a pool.
exec timeout --kill-after=10 600 env \
    LD_PRELOAD="$asan:$ubsan:$stdlib" \
    ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1:abort_on_error=1 \
    UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1:abort_on_error=1 \
    PYTHONMALLOC=malloc \
    ARROW_DEFAULT_MEMORY_POOL=system \
    "$python" scripts/sanitized_tests.py "$out"/wheel/gapless/kernels/_native*.so tests/kernels
