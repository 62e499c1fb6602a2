"""Runs tests with another build of the native kernel: sanitized_tests.py NATIVE_MODULE TESTS..."""

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

NAME = "gapless.kernels._native"


class OneModule:
    """Finds the one module under its usual name, before the installed one is found."""

    def __init__(self, file: str) -> None:
        self.file = str(Path(file).resolve())

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        """The import system's question."""
        return importlib.util.spec_from_file_location(NAME, self.file) if fullname == NAME else None


def main(file: str, *tests: str) -> int | str:
    """The exit code of the tests, or a sentence if they ran on something else."""
    native = OneModule(file)
    sys.meta_path.insert(0, native)
    # The sanitizer's report goes to stderr itself, in the moment that ends the process: capturing
    # that would lose it. Then pytest's handler of crashes adds the Python stack.
    options = ["--quiet", "--capture=sys", "-p", "no:cacheprovider"]
    code = pytest.main([*options, *tests])
    used = getattr(sys.modules.get(NAME), "__file__", None)
    if code == 0 and used != native.file:
        return f"the tests ran on {used or 'the Python twin'}, not on {native.file}"
    return int(code)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
