"""One table, told by changelogs of other kinds: their streams are equal, and merge."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from gapless.operators.changelog import ChangelogReader, Retractions, Upserts
from gapless.protocol.changelog import Changes
from gapless.protocol.elements import INF
from gapless.protocol.frame import Frame
from gapless.protocol.tdb import Tdb
from gapless.testing import TrialFailed, rehearse
from tests.effort import cases
from tests.operators.changelog.logs import SCHEMA, changes
from tests.operators.changelog.twins import Change, TwinUpserts

KEYS = "ABCD"


def history(rng: random.Random) -> list[Change]:
    """What happened to a table with a key, in order; updates that change nothing among it."""
    there: dict[str, int] = {}
    log: list[Change] = []
    time = 0
    for _ in range(60):
        time += rng.randint(0, 2)
        key = rng.choice(KEYS)
        if key in there and rng.random() < 0.3:
            log.append(("-D", time, (key, there.pop(key))))
        else:
            there[key] = rng.randint(0, 2)
            log.append(("+U", time, (key, there[key])))
    return log


def as_retractions(log: list[Change]) -> list[Change]:
    """The same with the old row of each update."""
    there: dict[Any, tuple[Any, ...]] = {}
    told: list[Change] = []
    for kind, time, row in log:
        old = there.pop(row[0], None)
        if kind == "-D":
            told.append(("-D", time, row))
            continue
        if old is not None:
            told.append(("-U", time, old))
        told.append(("+I" if old is None else "+U", time, row))
        there[row[0]] = row
    return told


def without_idle(log: list[Change]) -> list[Change]:
    """The same without updates that change nothing."""
    there: dict[Any, Any] = {}
    told = []
    for kind, time, row in log:
        if kind == "-D" or there.get(row[0]) != row:
            told.append((kind, time, row))
        there[row[0]] = None if kind == "-D" else row
    return told


def disordered(rng: random.Random, log: list[Change]) -> list[Change]:
    """The same, keys having come over partitions of a topic: each in its order, none in step."""
    parts = {key: [c for c in reversed(log) if c[2][0] == key] for key in KEYS}
    told = []
    while any(parts.values()):
        told.append(parts[rng.choice([key for key in KEYS if parts[key]])].pop())
    return told


def stream(rng: random.Random, reader: ChangelogReader, log: list[Change]) -> list[Frame]:
    """Frames of a log, cut somewhere, with watermarks as late as they please."""
    frames = []
    while log:
        size = rng.randint(1, 9)
        part, log = log[:size], log[size:]
        least = min((time for _, time, _ in log), default=INF)
        watermark = rng.choice([None, least, least - 3 if least < INF else INF])
        frames.append(reader.push(changes(part), watermark))
    frames.append(reader.push(Changes.none(SCHEMA), INF))
    return [frame for frame in frames if frame]


def streams(seed: int) -> list[list[Frame]]:
    rng = random.Random(seed)
    log = history(rng)
    tellings: list[tuple[Callable[[], ChangelogReader], list[Change]]] = [
        (lambda: Retractions(SCHEMA), as_retractions(log)),
        (lambda: Upserts(SCHEMA, ["k"]), log),
        (lambda: Upserts(SCHEMA, ["k"]), as_retractions(without_idle(log))),
        (lambda: Upserts(SCHEMA, ["k"]), disordered(rng, log)),
    ]
    return [stream(rng, make(), told) for make, told in tellings]


@pytest.mark.parametrize("seed", range(25))
def test_their_streams_tell_one_table_and_merge(seed: int) -> None:
    told = streams(seed)
    twin = TwinUpserts(SCHEMA)
    twin.push(history(random.Random(seed)))
    for frames in told:
        table = Tdb(SCHEMA)
        for frame in frames:
            table.fold(frame)
        assert table == twin.table, table.difference(twin.table)
    for order in range(4):
        rehearse(told, order)


class EndsNothing(Upserts):
    """Broken: forgets to end what it replaces, where much happens at once."""

    def _take_in(self, changes: Any, keys: Any, rows: Any) -> Any:
        frame = super()._take_in(changes, keys, rows)
        return frame if len(frame) < 3 else frame.take(frame.is_insert)


def test_a_copy_that_tells_another_table_is_found() -> None:
    found = 0
    for seed in range(cases(10)):
        rng = random.Random(seed)
        told = streams(seed)
        broken = EndsNothing(SCHEMA, ["k"])
        wrong = stream(rng, broken, history(random.Random(seed)))
        try:
            rehearse([told[0], wrong], seed)
        except TrialFailed:
            found += 1
    assert found
