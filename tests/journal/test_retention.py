"""What goes is old, too much or read; what stays is whole; after any death nothing is half gone."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import chain, count
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.journal import retention
from gapless.journal.batch import TaskWriter, commit_batch, writing_epoch
from gapless.journal.commit import Commits
from gapless.journal.disk import Disk
from gapless.journal.facts import Fact, facts_batch, facts_list
from gapless.journal.layout import Layout, establish
from gapless.journal.parts import Parts
from gapless.journal.reader import Reader
from gapless.journal.readers import Registered, register, registered, unregister
from gapless.journal.retention import Plan, Retention, plan, trim
from gapless.journal.writer import Writer
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import JournalError, Misuse, Trimmed
from gapless.protocol.frame import Frame
from tests.effort import cases
from tests.journal.dying import Died, DyingDisk
from tests.journal.journals import (
    SCHEMA,
    Row,
    batch,
    by_partition,
    drain,
    expected,
    layout,
    memory,
    random_batches,
    read_all,
    rows_of,
    writer,
)

SEEDS = range(cases(20))


def commits_of(disk: Disk, shape: Layout | None = None) -> Commits:
    return Commits(disk, shape or layout())


def trimmed(disk: Disk, shape: Layout | None = None, token: str = "t", **rules: Any) -> Plan:
    forget = rules.pop("forget", ())
    commits = commits_of(disk, shape)
    return trim(commits, Retention(**rules), token=token, now_ms=9, forget=forget)


def filled(
    disk: Disk, batches: int = 40, seed: int = 1, **options: Any
) -> tuple[Writer, dict[int, list[Row]]]:
    """A journal of many segments that still has a writer, and its rows by partition."""
    made = random_batches(random.Random(seed), batches)
    options.setdefault("segment_bytes", 1_500)
    out = writer(disk, **options)
    for rows in made:
        out.append(batch(rows))
    return out, by_partition(list(chain(*expected(made).kept)), out.layout.partitions)


def files_of(disk: Disk, folder: str = "segments") -> set[str]:
    return {f"{folder}/{name}" for name in disk.list(folder)}


def middle(disk: Disk) -> int:
    """A time before which about half of the segments are."""
    largest = commits_of(disk).facts.column("largest").to_pylist()
    return int(np.median(largest))


# -- which rows go --------------------------------------------------------------------------------


def oracle(facts: list[Fact], rule: Retention, readers: list[Registered], live: int) -> set[Fact]:
    """The rules one by one, over lists."""

    def free(fact: Fact) -> bool:
        return all(
            r.position is not None and fact.first + fact.rows <= r.position.get(fact.partition, INF)
            for r in readers
        )

    def leading(chosen: set[Fact]) -> set[Fact]:
        kept, stopped = set(), set()
        for fact in facts:
            if fact in chosen and fact.partition not in stopped:
                kept.add(fact)
            else:
                stopped.add(fact.partition)
        return kept

    gone: set[Fact] = set()
    may = leading({f for f in facts if free(f)})
    if rule.before is not None:
        gone |= leading({f for f in may if f.largest < rule.before})
    if rule.read:
        gone |= {f for f in may if any(f.partition in (r.position or {}) for r in readers)}
    if rule.keep_bytes is not None:
        while left(facts, gone) + live > rule.keep_bytes:
            files = list(dict.fromkeys(f.segment for f in facts if f not in gone))
            more = [{f for f in facts if f.segment == name} for name in files]
            more = [part for part in more if part <= may and leading(gone | part) == gone | part]
            if not more:
                break
            gone |= more[0]
    return gone


def left(facts: list[Fact], gone: set[Fact]) -> int:
    return sum({f.segment: f.bytes for f in facts if f not in gone}.values())


def check_a_trim_against_the_plainest_rules(seed: int) -> None:
    rng = random.Random(seed)
    disk = memory()
    out, rows = filled(disk, seed=seed, segment_bytes=rng.choice((1, 700, 2_000)))
    total = sum(disk.size(name) for name in files_of(disk))
    for name in ("a", "b")[: rng.randrange(3)]:
        parts = rng.sample(range(3), rng.choice((1, 3)))
        register(disk, name, {p: rng.randrange(len(rows[p]) + 1) for p in parts}, 7)
    before = rng.choice((None, rng.randrange(100, 160), INF))
    keep_bytes = rng.choice((None, rng.randrange(total)))
    rule = Retention(before, keep_bytes, before is keep_bytes or rng.random() < 0.5)
    facts = [f for f in facts_list(commits_of(disk).facts) if f.rows]
    live = disk.size(out._tally.name)
    gone = oracle(facts, rule, registered(disk), live)
    made = plan(commits_of(disk), rule)
    assert commits_of(disk).head.number == out._commits.head.number, "a plan changes nothing"
    assert trim(commits_of(disk), rule, token="t", now_ms=9) == made
    assert made.rows == sum(f.rows for f in gone)
    assert made.kept_bytes == left(facts, gone) + live
    assert {f.segment for f in facts} - set(made.segments) == {
        f.segment for f in facts if f not in gone
    }
    stays = {p: sum(f.rows for f in gone if f.partition == p) for p in range(3)}
    assert made.first == tuple(stays[p] for p in range(3))
    assert files_of(disk) == {f.segment for f in facts if f not in gone} | (
        files_of(disk) & {out._tally.name}
    )
    assert by_partition(read_all(disk), 3) == {p: rows[p][stays[p] :] for p in range(3)}
    for reader in registered(disk):
        position = reader.position or {}
        found = by_partition(read_all(disk, partitions=position, start=position), 3)
        assert all(found[p] == rows[p][position[p] :] for p in position)


@pytest.mark.parametrize("seed", range(50))
def test_what_goes_and_what_stays_is_what_the_plainest_rules_say(seed: int) -> None:
    check_a_trim_against_the_plainest_rules(seed)


@pytest.mark.parametrize("broken", ["readers", "files"])
def test_a_trim_that_forgets_a_rule_is_caught(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if broken == "readers":
        monkeypatch.setattr(
            retention, "_limit_of", lambda parts, _: retention._Limit(parts.all, "")
        )
    else:
        monkeypatch.setattr(Parts, "whole", lambda parts, mask: np.unique(parts.file[mask]))
    assert any(fails(check_a_trim_against_the_plainest_rules, seed) for seed in range(40))


def fails(check: Callable[[int], None], seed: int) -> bool:
    try:
        check(seed)
    except (AssertionError, JournalError):
        return True
    return False


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.booleans()), max_size=30))
def test_only_leading_parts_of_each_partition_go(drawn: list[tuple[int, int, bool]]) -> None:
    rows, facts = [0] * 4, []
    for i, (p, largest, _) in enumerate(drawn):
        facts.append(Fact(1, f"segments/0000000001-{i}", 8, 0, p, rows[p], 1, 0, largest, 0, True))
        rows[p] += 1
    mask = np.array([chosen for *_, chosen in drawn], np.bool_)
    stopped: set[int] = set()
    wanted = []
    for p, _, chosen in drawn:
        if not chosen:
            stopped.add(p)
        wanted.append(p not in stopped)
    assert Parts.of(facts_batch(facts)).leading(mask).tolist() == wanted


def test_partitions_that_stand_alone_go_side_by_side() -> None:
    disk, shape = memory(), layout()
    establish(disk, shape, "x")
    commits = commits_of(disk)
    epoch = writing_epoch(commits, "spark", "run", 1, process="p", durable=False)
    task = TaskWriter(
        disk,
        shape,
        epoch,
        "q.0.0.x",
        BEGIN,
        batch=0,
        durable=False,
        by_partition=True,
        segment_bytes=1,
    )
    rows = [(t, src, t) for t in range(100, 200) for src in ("a", "b", "c", "dd")]
    for start in range(0, len(rows), 40):
        task.add(batch(rows[start : start + 40]))
        task._write()  # a record and, so small they are, a segment for each partition
    commit_batch(
        commits, epoch, "run", [task.finish()], query="q", batch=0, now_ms=1, durable=False
    )
    half = sum(disk.size(name) for name in files_of(disk)) // 2
    made = trimmed(disk, keep_bytes=half)
    assert made.kept_bytes <= half
    left_of = by_partition(read_all(disk), 3)
    begins = {p: left_of[p][0][0] for p in left_of if by_partition(rows, 3)[p]}
    assert len(set(begins.values())) == 1, "all partitions begin at one time"


def test_time_lets_go_what_is_before_it_and_nothing_else() -> None:
    disk = memory()
    _, rows = filled(disk)
    t = middle(disk)
    made = trimmed(disk, before=t)
    assert made.rows > 0
    assert made.segments
    found = by_partition(read_all(disk), 3)
    assert all(r in found[p] for p in rows for r in rows[p] if r[0] is not None and r[0] >= t)


def test_nothing_is_said_to_be_read_where_no_reader_is_registered() -> None:
    disk = memory()
    filled(disk)
    made = trimmed(disk, read=True)
    assert (made.rows, made.segments) == (0, ())
    assert made.stays == ("no reader is registered: nothing is known to have been read",)
    register(disk, "one", {0: 1_000_000}, 7)
    made = trimmed(disk, read=True)
    assert made.first[0] > 0
    assert made.first[1:] == (0, 0)  # of partition 1 there are no rows at all
    assert "no registered reader reads partition 2" in made.stays[0]


def test_without_a_rule_no_row_goes() -> None:
    disk = memory()
    _, rows = filled(disk)
    register(disk, "dead", {0: 0}, 1)
    before = files_of(disk)
    disk.append("commits/0000000000.x", b"a draft that somebody has left")
    made = trimmed(disk, forget=["dead"])
    assert (made.rows, made.segments, made.stays) == (0, (), ())
    assert made == plan(commits_of(disk), Retention())
    assert files_of(disk) == before
    assert not disk.exists("commits/0000000000.x")
    assert by_partition(read_all(disk), 3) == rows


def test_a_size_to_keep_must_make_sense() -> None:
    with pytest.raises(Misuse, match="not negative"):
        Retention(keep_bytes=-1)


# -- beside a writer, and readers -----------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_a_writer_and_its_readers_go_on_while_others_trim(seed: int) -> None:
    rng = random.Random(seed)
    disk, batches = memory(), random_batches(rng, 120)
    said = expected(batches)
    rows = by_partition(list(chain(*said.kept)), 3)
    out = writer(disk, segment_bytes=rng.choice((1, 1_500)))
    follower = Reader(disk, frame_rows=rng.choice((3, 1000)))
    follower.keep("follower", 0)
    seen: list[Row] = []
    for i, each in enumerate(batches):
        made = out.append(batch(each))
        out.validate()
        assert (made.batch, made.stable) == (i, said.stables[i])
        assert out.rows == sum(map(len, said.kept[: i + 1]))
        if rng.random() < 0.3:
            seen += drain(follower)
            follower.keep("follower", i)
        if rng.random() < 0.3 and i > 5:
            rule: dict[str, Any] = rng.choice(
                ({"before": said.stables[i]}, {"keep_bytes": 3_000}, {"read": True})
            )
            trimmed(disk, token=f"t{i}", **rule)
    out.close()
    seen += drain(follower)
    assert by_partition(seen, 3) == rows
    assert follower.stable == said.stables[-1]
    head = commits_of(disk).head
    assert list(head.rows) == [len(rows[p]) for p in range(3)]
    assert by_partition(read_all(disk), 3) == {p: rows[p][head.first[p] :] for p in range(3)}
    again = writer(disk, "w2")
    assert (again.batches, again.rows) == (len(batches), sum(head.rows))
    again.close()


@pytest.mark.parametrize("frame_rows", [1, 5])
@pytest.mark.parametrize("read", [0, 1, 4, 30])
def test_a_reader_that_is_overtaken_hears_of_it_and_misses_nothing_before(
    frame_rows: int, read: int
) -> None:
    disk = memory()
    out, rows = filled(disk)
    reader = Reader(disk, frame_rows=frame_rows)
    seen: list[Row] = []
    for _ in range(read):
        frame = reader.read()
        assert frame is not None
        seen += rows_of(frame)
    out.seal()
    trimmed(disk, before=INF)
    with pytest.raises(Trimmed, match="has been trimmed"):
        drain_until_it_raises(reader, seen)
    found = by_partition(seen, 3)
    assert found == {p: rows[p][: len(found[p])] for p in range(3)}
    assert reader.position == {p: len(found[p]) for p in range(3)}
    with pytest.raises(Trimmed):
        reader.read()


def drain_until_it_raises(reader: Reader, seen: list[Row]) -> None:
    while (frame := reader.read()) is not None:
        seen += rows_of(frame)


def test_a_reader_of_the_live_segment_hears_that_it_was_sealed_and_trimmed() -> None:
    disk = memory()
    out = writer(disk, segment_bytes=1 << 20)
    out.append(batch([(100, "a", 1)]))
    reader = Reader(disk)
    assert drain(reader) == [(100, "a", 1)]
    out.append(batch([(101, "a", 2)]))
    out.seal()
    trimmed(disk, before=INF)
    with pytest.raises(Trimmed):
        drain(reader)


def test_a_reader_that_has_read_what_was_trimmed_just_goes_on() -> None:
    disk = memory()
    out, rows = filled(disk)
    reader = Reader(disk)
    seen = drain(reader)
    out.seal()
    trimmed(disk, before=INF)
    out.append(batch([(10_000, "a", 1)]))
    assert by_partition(seen, 3) == rows
    assert drain(reader) == [(10_000, "a", 1)]


def test_a_live_segment_without_rows_may_go_under_its_reader() -> None:
    disk = memory()
    out = writer(disk)
    out.append(batch([(100, "a", 1)]))
    out.seal()
    out.append(batch([]))
    reader = Reader(disk)
    assert drain(reader) == [(100, "a", 1)]
    out.append(batch([]))
    reader._growing = reader._watched(reader._growing)
    out.seal()
    trimmed(disk, before=BEGIN + 1)
    assert files_of(disk) == {"segments/0000000001-0000000000"}
    out.append(batch([(101, "a", 2)]))
    assert drain(reader) == [(101, "a", 2)]


def test_what_was_promised_is_promised_when_all_rows_are_gone() -> None:
    disk = memory()
    out, rows = filled(disk)
    out.end()
    made = trimmed(disk, before=INF)
    assert made.rows == sum(map(len, rows.values()))
    assert made.kept_bytes == 0
    reader = Reader(disk)
    assert drain(reader) == []
    assert reader.ended
    assert trimmed(disk, before=INF).rows == 0
    assert commits_of(disk).head.number == out._commits.head.number + 1, "nothing to do, no commit"


def test_rejected_rows_go_with_the_segments_that_they_came_with() -> None:
    disk = memory()
    out, _ = filled(disk, batches=80)
    before = files_of(disk, "rejects")
    assert len(before) > 5
    trimmed(disk, before=middle(disk))
    after = files_of(disk, "rejects")
    assert after < before
    live = out._tally.name.rpartition("/")[2]
    kept = {name.rpartition("/")[2] for name in files_of(disk)} | {live}
    gone = before - after
    assert not {f"rejects/{name}.jsonl" for name in kept} & gone
    again = writer(disk, "w2")
    again.append(batch([(10_000, "a", 1)]))
    again.seal()
    trimmed(disk, before=10_000)
    assert files_of(disk, "rejects") == set()


# -- frames and their bases -----------------------------------------------------------------------


def frames_of(start: int, n: int, stable: int) -> Frame:
    vs = np.arange(start, start + n, dtype=np.int64)
    return Frame.from_columns(
        SCHEMA, vs, vs + 5, batch([(int(t), "a", int(t)) for t in vs]), stable=stable
    )


def live_at(frame: Frame) -> Frame:
    assert frame.stable is not None
    return frame.take(np.flatnonzero(frame.ve >= frame.stable)).with_stable(frame.stable)


def test_frames_go_up_to_the_last_base_and_readers_begin_there() -> None:
    disk, shape = memory(), Layout(SCHEMA)
    out = writer(disk, shape=shape, segment_bytes=1)
    for i in range(4):
        out.append(frames_of(i * 10, 10, i * 10 + 9))
    assert trimmed(disk, shape, before=INF).rows == 0
    assert "no base" in trimmed(disk, shape, before=INF).stays[0]
    whole = frames_of(0, 50, 49)
    out.append(frames_of(40, 10, 49))
    out.seal(live_at(whole))
    out.append(frames_of(50, 10, 59))
    out.seal()
    assert "is before them" in trimmed(disk, shape, before=INF).stays[0]
    assert commits_of(disk, shape).head.first == (50,)
    for start in ("earliest", "base"):
        reader = Reader(disk, start=start)
        first, second = reader.read(), reader.read()
        assert first is not None
        assert second is not None
        assert (first.vs.tolist(), first.stable) == (live_at(whole).vs.tolist(), 49)
        assert (second.vs.tolist(), second.stable) == (list(range(50, 60)), 59)


def test_bases_that_nobody_names_go_and_one_that_is_being_written_stays() -> None:
    disk, shape = memory(), Layout(SCHEMA)
    out = writer(disk, shape=shape, segment_bytes=1 << 20)
    for i in range(4):
        frame = frames_of(i * 10, 10, i * 10 + 9)
        out.append(frame)
        out.seal(live_at(frame))
    out.append(frames_of(40, 10, 49))
    written = out._base(live_at(frames_of(40, 10, 49)))
    assert len(disk.list("bases")) == 5
    trimmed(disk, shape, before=INF)
    assert len(disk.list("bases")) == 3
    assert disk.exists(written.segment)


# -- registered readers ---------------------------------------------------------------------------


def test_readers_register_are_heard_of_and_leave() -> None:
    disk = memory()
    assert registered(disk) == []
    register(disk, "b", {0: 300, 5: 2**40}, 1_000)
    register(disk, "a", {1: 2}, 1_001)
    assert registered(disk) == [
        Registered("a", {1: 2}, 1_001),
        Registered("b", {0: 300, 5: 2**40}, 1_000),
    ]
    register(disk, "b", {0: 3}, 5)  # shorter than what it overwrites
    assert registered(disk)[1] == Registered("b", {0: 3}, 5)
    unregister(disk, "a")
    assert [r.name for r in registered(disk)] == ["b"]
    with pytest.raises(Misuse, match="no registered reader"):
        unregister(disk, "a")


@pytest.mark.parametrize("name", ["", "a/b", ".", "..", "-x", "a" * 101, "ü", "a\n"])
def test_a_name_that_is_no_file_name_is_refused(name: str) -> None:
    with pytest.raises(Misuse, match="a name has"):
        register(memory(), name, {0: 1}, 1)


@pytest.mark.parametrize("position", [{}, {-1: 0}, {0: -1}, {5_000: 0}])
def test_what_is_no_position_is_refused(position: dict[int, int]) -> None:
    with pytest.raises(Misuse, match="position"):
        register(memory(), "a", position, 1)


def test_a_reader_whose_file_does_not_read_keeps_everything_until_it_is_forgotten() -> None:
    disk = memory()
    filled(disk)
    register(disk, "broken", {0: 1_000, 1: 1_000, 2: 1_000}, 1)
    whole = disk.read("readers/broken", 0, 1 << 16)
    for at in range(len(whole)):
        disk.put("readers/broken", whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        assert registered(disk) == [Registered("broken", None, 0)]
    made = trimmed(disk, before=INF)
    assert made.rows == 0
    assert "readers/broken does not read" in made.stays[0]
    assert trimmed(disk, before=INF, forget=["broken"]).rows > 0


# -- deaths ---------------------------------------------------------------------------------------


def check_a_death_while_trimming(at: int) -> bool:
    disk = DyingDisk(-1)
    out, rows = filled(disk)
    rejected = out.rejected
    before = middle(disk)
    disk.at = disk.changes + at
    try:
        trimmed(disk, before=before)
        died = False
    except Died:
        died = True
    disk.revived()
    head = commits_of(disk).head
    assert by_partition(read_all(disk), 3) == {p: rows[p][head.first[p] :] for p in range(3)}
    out.append(batch([(10_000, "a", 1)]))
    rows[by_partition_of("a")].append((10_000, "a", 1))
    trimmed(disk, token="t2", before=before)
    named = set(commits_of(disk).facts.column("segment").to_pylist()) - {""}
    assert files_of(disk) == named | {out._tally.name}
    head = commits_of(disk).head
    assert any(head.first)
    assert by_partition(read_all(disk), 3) == {p: rows[p][head.first[p] :] for p in range(3)}
    assert out.rejected == rejected
    out.close()
    writer(disk, "w2").close()
    assert {n for n in disk.list("commits") if not n.isdecimal()} <= {"newest"}
    return died


def by_partition_of(src: str) -> int:
    return next(p for p, rows in by_partition([(1, src, 1)], 3).items() if rows)


def test_a_death_at_any_step_of_a_trim_loses_nothing_and_the_next_one_finishes_it() -> None:
    assert next(at for at in count(1) if not check_a_death_while_trimming(at)) > 10


def test_a_trim_that_unlinks_before_it_commits_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    change = retention._change

    def early(commits: Commits, made: Plan, *others: Any) -> Any:
        for name in made.segments:
            commits.disk.unlink(name)
        return change(commits, made, *others)

    monkeypatch.setattr(retention, "_change", early)
    with pytest.raises(JournalError, match="segment"):
        next(at for at in count(1) if not check_a_death_while_trimming(at))


def test_a_writer_that_takes_over_in_the_middle_of_a_trim_changes_nothing() -> None:
    disk = memory()
    _, rows = filled(disk)
    commits = commits_of(disk)
    link = disk.link
    others = iter(["w2", "w3"])

    def late(source: str, name: str) -> None:
        if ".t" in source and (token := next(others, None)) is not None:
            writer(disk, token)
        link(source, name)

    disk.link = late  # type: ignore[method-assign]  # somebody is always a little earlier
    made = trim(commits, Retention(before=middle(disk)), token="t", now_ms=9)
    assert made.rows > 0
    assert commits.head.epoch == 3
    assert by_partition(read_all(disk), 3) == {p: rows[p][made.first[p] :] for p in range(3)}


@pytest.mark.parametrize("position", [{"0": 1}, {0: 1.0}, {0: None}, {0: -1}])
def test_a_position_that_would_not_read_is_refused(position: Any) -> None:
    with pytest.raises(Misuse, match="is not a position"):
        register(memory(), "r", position, 7)


@pytest.mark.parametrize("now_ms", [1.5, "7", None, -1, True])
def test_a_time_of_a_reader_that_would_not_read_is_refused(now_ms: Any) -> None:
    with pytest.raises(Misuse, match="whole milliseconds"):
        register(memory(), "r", {0: 1}, now_ms)
