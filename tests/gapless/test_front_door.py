import contextlib
import io
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import gapless


def test_every_public_name_is_there() -> None:
    assert sorted(gapless._HOMES) == sorted(gapless.__all__)
    for name in gapless.__all__:
        assert getattr(gapless, name).__doc__


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="gapless has no 'Nonsense'"):
        gapless.Nonsense  # noqa: B018  # looking is the test


def test_importing_it_loads_nothing_heavy() -> None:
    heavy = {"importlib.metadata", "numpy", "pyarrow", "ray", "pyspark"}
    code = f"import sys, gapless; print({heavy} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"


def test_it_says_which_release_it_is() -> None:
    assert gapless.__version__ == metadata.version("gapless")


def test_the_examples_of_the_readme_run() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    example = "".join(block.split("```")[0] for block in readme.split("```python\n")[1:])
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(example, "README.md", "exec"), {})  # noqa: S102  # our own text
    shown = [line[2:] for line in example.splitlines() if line.startswith("# ")]
    assert printed.getvalue().splitlines() == shown
