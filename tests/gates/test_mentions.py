"""A comment that sends its reader to a file names one that is there, also after a move."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.gates.repository import ROOT, files

MENTION = re.compile(r"(?<![\w/.*\"'-])((?:[a-z_]+/)*[a-z_0-9]+\.py)\b")
USERS = {"scoring.py", "talkers.py"}
"""Files of users, in examples."""
HERE = [path.relative_to(ROOT) for path in files("*.py")]
PRODUCT = [path for path in HERE if path.parts[0] not in {"tests", "examples", "fuzz"}]


def dead(path: Path, text: str) -> Iterator[str]:
    """Mentions of an absent file: a bare name is one of the same folder."""
    ends = {f"/{there.as_posix()}" for there in HERE}
    for mention in MENTION.findall(text):
        beside = path.parent / mention in HERE
        far = "/" in mention and any(end.endswith(f"/{mention}") for end in ends)
        if not beside and not far and mention not in USERS:
            yield f"{path}: {mention}"


def test_every_file_that_a_comment_names_is_there() -> None:
    told = [each for path in PRODUCT for each in dead(path, (ROOT / path).read_text("utf-8"))]
    assert told == []


def test_a_mention_of_a_file_that_moved_is_seen() -> None:
    text = "see r3.py, merge/r3.py, failover/r3.py and gone.py"
    assert list(dead(Path("merge/r1.py"), text)) == [
        "merge/r1.py: failover/r3.py",
        "merge/r1.py: gone.py",
    ]
