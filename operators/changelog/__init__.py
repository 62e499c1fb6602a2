"""Changelogs to frames and back.

    reader.py        what all readers promise: stables, late changes, a bound on what is kept
    retractions.py   pluses and minuses, counted; no key                      Retractions
    upserts.py       rows by key; the last one said of a key counts           Upserts
    open_close.py    one event of a payload at a time; a close revises        OpenClose
    revisions.py     whole lifetimes, given and taken back                    Revisions
    writer.py        frames to changes, each once, in order, when final       FinalChanges

What a change is, and how Arrow columns become changes: `protocol/changelog.py`,
`protocol/debezium.py`. How to use them: docs/changelog-streams.md.
"""

from gapless.operators.changelog.open_close import OpenClose
from gapless.operators.changelog.reader import ChangelogReader
from gapless.operators.changelog.retractions import Retractions
from gapless.operators.changelog.revisions import Revisions
from gapless.operators.changelog.upserts import Upserts
from gapless.operators.changelog.writer import FinalChanges, Written

__all__ = [
    "ChangelogReader",
    "FinalChanges",
    "OpenClose",
    "Retractions",
    "Revisions",
    "Upserts",
    "Written",
]
