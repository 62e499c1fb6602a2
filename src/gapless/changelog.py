"""Changelogs of other engines to frames and back (docs/changelog-streams.md).

from gapless.changelog import Changes, FinalChanges, Upserts

reader = Upserts(schema, key=["id"])
frame = reader.push(Changes.of(batch, schema, kind="op", time="ts"), watermark=now)

writer = FinalChanges(schema, key=["id"])
changes, watermark = writer.push(frame)
batch = changes.to_arrow()

Changes                           rows with a kind and a time, from Arrow and to Arrow
from_debezium, to_debezium        the same as envelopes with before and after
Retractions                       pluses and minuses; no key
Upserts                           rows by key
OpenClose                         one event of a payload at a time; a close revises
Revisions                         whole lifetimes, given and taken back
FinalChanges                      frames to changes, each once, in order, when final
"""

from gapless.operators.changelog import (
    ChangelogReader,
    FinalChanges,
    OpenClose,
    Retractions,
    Revisions,
    Upserts,
    Written,
)
from gapless.protocol.changelog import Changes
from gapless.protocol.debezium import from_debezium, to_debezium
from gapless.protocol.errors import ChangeError

__all__ = [
    "ChangeError",
    "ChangelogReader",
    "Changes",
    "FinalChanges",
    "OpenClose",
    "Retractions",
    "Revisions",
    "Upserts",
    "Written",
    "from_debezium",
    "to_debezium",
]
