"""docs/changelog-streams.md does what it says."""

import contextlib
import io
from pathlib import Path

import gapless.changelog

PAGE = Path(__file__).parents[2] / "docs" / "changelog-streams.md"


def test_the_examples_of_the_page_run() -> None:
    blocks = [block.split("```")[0] for block in PAGE.read_text().split("```python\n")[1:]]
    assert len(blocks) > 5
    example, printed = "".join(blocks), io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(example, PAGE.name, "exec"), {})  # noqa: S102  # our own text
    shown = [line[2:] for line in example.splitlines() if line.startswith("# ")]
    assert printed.getvalue().splitlines() == shown


def test_every_public_name_is_there_and_explained() -> None:
    for name in gapless.changelog.__all__:
        assert getattr(gapless.changelog, name).__doc__
