import random

import pytest

from gapless.chaos.judge.history import Durable, Fact, Recovered, Verdict
from gapless.chaos.sim.checkers.follower import Follower, Wrong
from gapless.chaos.sim.checkers.prefix import Prefix
from gapless.chaos.sim.checkers.rows import rows_of
from gapless.chaos.sim.checkers.wanted import Tables, Wanted
from gapless.chaos.sim.disk import SimulatedDisk
from gapless.failover.merger.output_journal import OutputJournal
from gapless.merge.compatible import compatible
from gapless.protocol.elements import INF, Adjust, Element, Insert, Stable
from gapless.protocol.errors import StreamViolation
from gapless.protocol.frame import Frame
from gapless.protocol.tdb import Event, Tdb
from gapless.protocol.text import DEFAULT_SCHEMA
from tests.chaos.sim.checkers.small import (
    SmallWorld,
    catches,
    durable,
    emitted,
    frame,
    hear,
    life,
    resumed,
    table,
    world,
)

TABLE = "ins(A,1,5) ins(B,3,9) ins(C,7,inf)"


def checker(text: str = TABLE, *, key: bool = True) -> Prefix:
    return Prefix(Tables(world(text)), key=key)


def test_a_journal_that_grows_into_the_table_passes() -> None:
    prefix = checker()
    hear(
        prefix,
        *durable(
            "ins(A,1,4) stable(2)",
            "ins(B,3,8) adj(A,1,4,5) stable(6)",
            "adj(B,3,8,9) ins(C,7,inf)",
            "stable(inf)",
        ),
    )
    assert prefix.verdict(world(TABLE)) is Verdict.HOLDS


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        (["ins(A,1,4) stable(5)"], "<A, .1,4.> is held too often"),
        (["ins(B,3,9) stable(6)"], "<A, .1,5.> is missing"),
        (["ins(A,1,5) ins(A,1,9) adj(A,1,9,1) stable(3)"], "beside another"),
        (["ins(A,1,5) stable(4)"], "held 0 of .'B'"),
        (["ins(A,1,5) ins(X,2,9) stable(3)"], "held 1 of .'X'"),
        (["ins(A,1,5) stable(2)", "ins(X,1,9)"], "behind stable 2"),
        (["ins(A,1,4)", "adj(A,1,9,5)"], "is not there"),
        (["ins(A,1,5) ins(B,3,9)", "stable(inf)"], "missing"),
    ],
)
def test_a_journal_that_cannot_become_the_table_is_caught(texts: list[str], problem: str) -> None:
    with catches(problem):
        hear(checker(), *durable(*texts))


def test_an_end_may_differ_while_it_can_still_move() -> None:
    hear(checker(), *durable("ins(A,1,99) stable(2)", "adj(A,1,99,5) ins(B,3,5) stable(5)"))


def test_without_a_key_events_are_counted() -> None:
    twice = "ins(A,1,5) ins(A,1,9)"
    hear(checker(twice, key=False), *durable("ins(A,1,7) ins(A,1,9) stable(3)"))
    with catches("held 1 of .'A'.., not 2"):
        hear(checker(twice, key=False), *durable("ins(A,1,7) stable(3)"))
    with catches("held 2 of .'A'.., not 1"):
        hear(checker(key=False), *durable("ins(A,1,5) ins(A,1,9) stable(3)"))


def test_a_gap_between_two_appends_is_caught() -> None:
    with catches("behind 1 rows"):
        hear(checker(), *durable("ins(A,1,5)"), *durable("ins(B,3,9)", after=2))


def test_rows_that_nobody_heard_of_are_no_gap_once_they_are_read_back() -> None:
    new = life("m0.0", 2)
    hear(
        checker(),
        *durable("ins(A,1,5) stable(2)"),
        Recovered(new, 2, 2, frame("ins(B,3,9) stable(6)")),
        *durable("ins(C,7,inf) stable(8)", merger=new, epoch=2, after=2),
    )
    same = Recovered(new, 2, 1, frame("ins(A,1,5) stable(2)"))
    hear(checker(), *durable("ins(A,1,5) stable(2)"), same)
    with catches("is not what was made durable"):
        hear(checker(), *durable("ins(A,1,6) stable(2)"), same)
    with catches("reads it back"):
        hear(checker(), Recovered(new, 2, 2, frame("ins(X,3,9) stable(6)")))


@pytest.mark.parametrize("seed", range(30))
def test_a_real_journal_that_life_after_life_takes_over_passes(seed: int) -> None:
    rng = random.Random(f"lives {seed}")
    reference, frames = teller(rng)
    prefix = Prefix(Tables(SmallWorld(reference)), key=True)
    disk = SimulatedDisk()
    for number, said in enumerate(frames, 1):
        output = OutputJournal(disk, DEFAULT_SCHEMA, life("m0.0", number), f"w{number}", lambda: 0)
        live, offset = output.recover()
        merger = life("m0.0", number)
        hear(prefix, Recovered(merger, output.epoch, offset, live))
        output.append(said)
        done = output.sync()
        if rng.random() < 0.7:  # else it dies before it hears of it
            hear(prefix, Durable(merger, output.epoch, done.offset - len(said), said))


def test_nothing_settled_is_unknown() -> None:
    prefix = checker()
    hear(prefix, *durable("ins(X,1,5)"))
    assert prefix.verdict(world(TABLE)) is Verdict.UNKNOWN


# -- programs ---------------------------------------------------------------------------------


def test_a_reset_replaces_what_ends_at_its_time_or_later() -> None:
    hear(
        checker(),
        resumed(),
        emitted("ins(A,1,5) ins(B,3,8) stable(6)", 1),
        emitted("ins(B,3,9) ins(C,7,11) stable(8)", 2, since=6),
        emitted("adj(C,7,11,inf) stable(inf)", 3),
    )


def test_what_a_reset_leaves_must_be_right() -> None:
    with catches("at stable 7 <A, .1,"):
        hear(checker(), emitted("ins(A,1,6) stable(2)"), emitted("ins(B,3,9)", since=7))
    with catches("held 0 of .'C'"):
        later: list[Fact] = [
            resumed(since=6),
            emitted("ins(B,3,9) stable(6)", since=6),
            emitted("stable(8)"),
        ]
        hear(checker(), *later)


def test_a_program_that_joins_holds_the_table_from_there_on() -> None:
    prefix = checker()
    late: list[Fact] = [
        resumed(since=None),
        emitted("ins(B,3,9) stable(6)", 1, since=6),
        emitted("stable(7)"),
    ]
    hear(prefix, *late)
    assert prefix.verdict(world(TABLE)) is Verdict.HOLDS
    with catches("is owed all from 4"):
        hear(checker(), resumed(since=4), late[1])


def test_what_a_program_did_not_keep_it_does_not_hold() -> None:
    begin: list[Fact] = [
        resumed(),
        emitted("ins(A,1,5) stable(2)", 1),
        emitted("ins(B,3,9) stable(6)", 2),
    ]
    hear(checker(), *begin, resumed(1), emitted("ins(B,3,9) stable(6)", 2), emitted("stable(7)"))
    with catches("held 0 of .'B'"):
        hear(checker(), *begin, resumed(1), emitted("stable(6)", 2))
    with catches("beside another"):
        hear(
            checker(),
            *begin,
            emitted("ins(C,7,inf)", 3),
            resumed(3),
            emitted("ins(C,7,inf) stable(8)"),
        )


def test_another_table_from_a_time_on_must_agree_on_what_is_settled() -> None:
    small = world(TABLE)
    prefix = Prefix(Tables(small), key=True)
    hear(prefix, *durable("ins(A,1,5) ins(B,3,9) stable(6)"))
    small.expected = table("ins(A,1,5) ins(B,3,9) ins(D,8,11)")
    hear(prefix, *durable("ins(D,8,11) stable(inf)", after=2))
    small.expected = table("ins(A,1,4) ins(D,8,11)")
    with catches("another one"):
        hear(prefix, *durable("stable(inf)", after=3))


def test_each_merger_of_a_shard_is_held_against_that_shard() -> None:
    small = world(TABLE)
    small.workload.shards = 2
    tables = Tables(small)
    parts = [tables.of(shard) for shard in range(2)]
    held = [{e.payload[0] for e, _ in part.events} for part in parts if part is not None]
    assert held[0] | held[1] == set("ABC")
    assert not held[0] & held[1]
    own = next(i for i, names in enumerate(held) if "A" in names)
    prefix = Prefix(tables, key=True)
    hear(prefix, *durable("ins(A,1,5)", merger=life(f"m{own}.0")))
    with catches("missing"):
        hear(prefix, *durable("stable(inf)", merger=life(f"m{own}.1")))


# -- against the paper's conditions -----------------------------------------------------------


def teller(rng: random.Random) -> tuple[Tdb, list[Frame]]:
    """A table with (payload, vs) as key, and one way to tell it, with provisional ends."""
    events = {
        (rng.choice("ABC"), rng.randrange(1, 15)): rng.choice([2, 5, 9, INF])
        for _ in range(rng.randrange(1, 7))
    }
    whole = [Event((p,), vs, INF if n == INF else vs + n) for (p, vs), n in events.items()]
    rows: list[tuple[int, Element]] = []
    for e in whole:
        if rng.random() < 0.5:
            first = e.vs + rng.randrange(1, 12)
            rows += [(e.vs, Insert(e.payload, e.vs, first))] if first != e.ve else []
            if first != e.ve:
                rows.append((min(first, e.ve), Adjust(e.payload, e.vs, first, e.ve)))
                continue
        rows.append((e.vs, Insert(*e)))
    rows.sort(key=lambda row: (row[0], isinstance(row[1], Adjust)))
    frames, pending = [], []
    for i, (t, row) in enumerate(rows):
        pending.append(row)
        ahead = min((later for later, _ in rows[i + 1 :]), default=INF)
        if rng.random() < 0.6 and ahead >= t:
            frames.append(Frame.from_elements(DEFAULT_SCHEMA, [*pending, Stable(ahead)]))
            pending = []
    frames.append(Frame.from_elements(DEFAULT_SCHEMA, [*pending, Stable(INF)]))
    return Tdb(DEFAULT_SCHEMA, whole), frames


def broken(rng: random.Random, frames: list[Frame]) -> list[Frame]:
    """The same with one row lost, doubled or with another end, or with a stable that is early."""
    at = rng.randrange(len(frames))
    elements = frames[at].elements()
    i = rng.randrange(len(elements))
    match rng.randrange(3), elements[i]:
        case 0, e:
            elements[i : i + 1] = [] if not isinstance(e, Stable) else [e]
        case 1, Insert(p, vs, ve) if ve < INF:
            elements[i] = Insert(p, vs, ve + rng.choice((-1, 1, 4)) if ve > vs + 1 else ve + 1)
        case _, Stable(t) if t < INF:
            elements[i] = Stable(t + rng.randrange(1, 4))
        case _, e:
            elements[i:i] = [e] if not isinstance(e, Stable) else []
    return [*frames[:at], Frame.from_elements(DEFAULT_SCHEMA, elements), *frames[at + 1 :]]


def right_frames(reference: Tdb, frames: list[Frame]) -> int:
    """How many frames of a stream are compatible with the whole table, by merge/compatible.py."""
    output = Tdb(DEFAULT_SCHEMA)
    for i, said in enumerate(frames):
        try:
            output.fold(said)
        except StreamViolation:
            return i
        if compatible([reference], output):
            return i
    return len(frames)


def frames_followed(reference: Tdb, frames: list[Frame]) -> int:
    follower = Follower(Wanted(reference.counts().items()))
    for i, said in enumerate(frames):
        try:
            follower.take(rows_of(said), said.stable)
        except Wrong:
            return i
    return len(frames)


def oracle_trial(seed: int) -> tuple[int, int]:
    rng = random.Random(f"follower {seed}")
    reference, frames = teller(rng)
    reference.stable = INF
    if seed % 4:
        frames = broken(rng, frames)
    return right_frames(reference, frames), frames_followed(reference, frames)


def test_oracle_a_prefix_is_caught_exactly_where_the_papers_conditions_break() -> None:
    caught = 0
    for seed in range(400):
        right, followed = oracle_trial(seed)
        assert followed == right, f"seed {seed}: right are {right} frames, followed {followed}"
        caught += right < len(teller(random.Random(f"follower {seed}"))[1])
    assert caught > 100
