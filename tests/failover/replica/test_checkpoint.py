"""Checkpoints: what reads back is what was written, all of it, or there is a typed reason."""

import random
from collections.abc import Sequence
from itertools import count

import pyarrow as pa
import pytest

from gapless.chaos.sim.disk import SimulatedDisk
from gapless.engine.plan import Plan
from gapless.engine.query import Query
from gapless.engine.source import source
from gapless.failover.job import whole_file
from gapless.failover.replica import checkpoint
from gapless.failover.replica.checkpoint import Checkpoint
from gapless.journal import base, segment
from gapless.journal.disk import Disk
from gapless.journal.layout import Layout
from gapless.operators.aggregates import calls
from gapless.operators.state import facts
from gapless.protocol.documents import Document
from gapless.protocol.elements import BEGIN
from gapless.protocol.envelope import Incarnation, decode_document, encode_document
from gapless.protocol.errors import CheckpointError, DiskFull, GaplessError, Misuse
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.text import DEFAULT_SCHEMA, parse
from tests.journal.dying import Died, DyingDisk

SCHEMA = StreamSchema({"k": "string", "n": "int64"})
NAME = "0-talkers-1-1"
PATH = f"{checkpoint.FOLDER}/{NAME}"
NOBODY = Incarnation(0, 0)


def query() -> Query:
    flows = source("flows", {"ts": "int64", "k": "string"}, time="ts", lateness=5)
    return flows.window(range=10, slide=5).group_by("k").aggregate(n=calls.count())


def frame(text: str, schema: StreamSchema = SCHEMA) -> Frame:
    return Frame.from_elements(schema, parse(text, schema))


def taken(rows: int = 6) -> Checkpoint:
    """Of a replica in the middle of its work."""
    graph = Plan(query()).compile()
    text = " ".join(f"ins(({i},k{i % 3}),{i},{i + 1})" for i in range(rows))
    out = graph.push("flows", frame(f"{text} stable({rows})", graph.sources["flows"]))
    assert len(out)
    return Checkpoint(
        "talkers",
        {"flows": {0: 7, 3: 0}},
        {"flows": 5},
        BEGIN,
        graph.stable,
        (out,),
        graph.snapshot(),
    )


def written(value: Checkpoint, disk: SimulatedDisk | None = None) -> SimulatedDisk:
    disk = disk or SimulatedDisk()
    checkpoint.write(disk, NAME, value)
    return disk


def same(a: Checkpoint, b: Checkpoint) -> bool:
    plain = all(
        getattr(a, name) == getattr(b, name)
        for name in ("plan", "positions", "given", "since", "stable")
    )
    whole = [Frame.concat([p.with_stable(None) for p in c.tail]) for c in (a, b)]
    stables = [[p.stable for p in c.tail if p.stable is not None] for c in (a, b)]
    tails = whole[0].batch.equals(whole[1].batch) and stables[0] == stables[1]
    states = list(a.state) == list(b.state) and all(
        batch.equals(b.state[name]) for name, batch in a.state.items()
    )
    return plain and tails and states


def test_what_was_written_reads_back_and_a_plan_goes_on_from_it() -> None:
    value = taken()
    back = checkpoint.read(written(value), NAME, value.tail[0].schema)
    assert same(back, value)
    graph = Plan(query()).compile()
    graph.restore(back.state)
    assert graph.stable == back.stable
    assert checkpoint.peek(written(value), NAME) == ("talkers", BEGIN)


def test_any_arrow_table_is_a_state() -> None:
    state = {
        "lists": pa.record_batch({"l": pa.array([[1], None, [2, 3]])}),
        "words": pa.record_batch({"d": pa.array(["a", "b", "a"]).dictionary_encode()}),
        "nothing": pa.record_batch({"n": pa.array([], pa.null())}),
        "a part": pa.record_batch({"n": pa.array(range(1000))}).slice(10, 3),
        "views": pa.record_batch({"v": pa.array(["x" * 50, None], pa.string_view())}),
    }
    value = Checkpoint("p", {}, {}, 3, 4, (Frame.empty(SCHEMA),), state)
    assert same(checkpoint.read(written(value), NAME, SCHEMA), value)


def test_what_is_large_is_cut_into_bounded_envelopes(monkeypatch: pytest.MonkeyPatch) -> None:
    value = taken(60)
    few = len(list(checkpoint.encode(value)))
    monkeypatch.setattr(checkpoint, "CHUNK_BYTES", 100)
    monkeypatch.setattr(checkpoint, "FRAME_BYTES_MAX", 100)
    records = list(checkpoint.encode(value))
    assert len(records) > few + 20
    assert max(map(len, records)) < 2_000
    assert same(checkpoint.decode(b"".join(records), value.tail[0].schema), value)


def test_a_checkpoint_is_encoded_as_it_is_written_one_table_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = {name: pa.record_batch({"n": pa.array(range(100))}) for name in ("a", "b", "c")}
    value = Checkpoint("p", {}, {}, 3, 4, (Frame.empty(SCHEMA),), state)
    made: list[pa.RecordBatch] = []
    real = checkpoint._stream

    def counted(batch: pa.RecordBatch) -> memoryview:
        made.append(batch)
        return real(batch)

    monkeypatch.setattr(checkpoint, "_stream", counted)
    ahead = [len(made) for _ in checkpoint.encode(value)]
    assert ahead == [0, 0, 1, 1, 2, 2, 3, 3]  # head, tail, and each table with its bytes


def test_every_flipped_byte_and_every_truncation_is_found() -> None:
    tail, state = frame("ins((A,1),1,9) stable(4)"), {"facts": facts(stable=4)}
    value = Checkpoint("p", {"flows": {0: 7}}, {"flows": 5}, 3, 4, (tail,), state)
    data = b"".join(checkpoint.encode(value))
    disk, rng = SimulatedDisk(), random.Random(1)
    for i in range(len(data)):
        flipped = bytearray(data)
        flipped[i] ^= 1 << rng.randrange(8)
        for damaged in (bytes(flipped), data[:i]):
            disk.unlink(PATH)
            disk.append(PATH, damaged)
            with pytest.raises(CheckpointError, match=f"{PATH}.*start from another"):
                checkpoint.read(disk, NAME, value.tail[0].schema)


def test_envelopes_that_are_missing_repeated_or_in_another_order_are_found() -> None:
    value = taken()
    records = list(checkpoint.encode(value))
    worse: list[Sequence[bytes]] = [
        records[:-1],
        [*records, records[-1]],
        records[1:],
        records[::-1],
    ]
    worse += [[*records[:i], *records[i + 1 :]] for i in range(len(records))]
    for each in worse:
        with pytest.raises(GaplessError):
            checkpoint.decode(b"".join(each), value.tail[0].schema)


def document(**changed: Document) -> bytes:
    head = decode_document(next(checkpoint.encode(taken()))).document
    assert isinstance(head, dict)
    return encode_document({**head, **changed}, NOBODY, 0)


@pytest.mark.parametrize(
    "changed",
    [
        {"format": 3},
        {"plan": 7},
        {"since": "now"},
        {"stable": 2**63},
        {"frames": 0},
        {"frames": 2},
        {"tables": 0},
        {"partitions": [[0]]},
        {"partitions": [[0, 0]]},
        {"offsets": [[7, -1]]},
        {"offsets": [[7, True]]},
        {"sources": ["flows", "flows"]},
        {"given": {"flows": None}},
        {"more": 1},
    ],
    ids=str,
)
def test_a_head_that_makes_no_sense_is_refused_though_its_checksum_is_right(
    changed: dict[str, Document],
) -> None:
    value = taken()
    disk = SimulatedDisk()
    disk.append(PATH, b"".join([document(**changed), *list(checkpoint.encode(value))[1:]]))
    with pytest.raises(CheckpointError):
        checkpoint.read(disk, NAME, value.tail[0].schema)


def test_a_checkpoint_of_a_release_that_meant_something_else_is_refused_by_its_number() -> None:
    value = taken()
    disk = SimulatedDisk()
    disk.append(PATH, b"".join([document(format=1), *list(checkpoint.encode(value))[1:]]))
    for look in (
        lambda: checkpoint.peek(disk, NAME),
        lambda: checkpoint.read(disk, NAME, value.tail[0].schema),
    ):
        with pytest.raises(CheckpointError, match=r"1: another release made it .*by replay"):
            look()


def test_a_tail_of_adjusts_or_of_settled_events_is_refused() -> None:
    for text in ("ins((A,1),1,9) adj((A,1),1,9,5)", "ins((A,1),1,3)"):
        value = Checkpoint("p", {}, {}, 4, 4, (frame(text),), {})
        with pytest.raises(CheckpointError, match="inserts"):
            checkpoint.read(written(value), NAME, SCHEMA)


def test_a_checkpoint_of_another_output_is_refused() -> None:
    with pytest.raises(CheckpointError, match="fingerprint"):
        checkpoint.read(written(taken()), NAME, StreamSchema({"x": "int64"}))


def test_a_checkpoint_that_is_not_there_is_told_as_one_that_does_not_read() -> None:
    for look in (
        lambda disk: checkpoint.read(disk, NAME, SCHEMA),
        lambda disk: checkpoint.peek(disk, NAME),
    ):
        with pytest.raises(CheckpointError, match=PATH):
            look(SimulatedDisk())


def test_names_are_used_once_and_are_no_paths() -> None:
    disk = written(taken())
    with pytest.raises(Misuse, match="used once"):
        written(taken(), disk)
    for name in ("", "../job", ".hidden", "a/b", "x" * 300):
        with pytest.raises(Misuse, match="a name has"):
            checkpoint.write(disk, name, taken())
    checkpoint.drop(disk, NAME)
    checkpoint.drop(disk, NAME)
    assert disk.list("checkpoints") == disk.list("drafts") == []


class CountedDisk(SimulatedDisk):
    """Counts what is written between two syncs."""

    def __init__(self) -> None:
        super().__init__()
        self.dirty = self.most = 0

    def append(self, name: str, data: bytes) -> int:
        self.dirty += len(data)
        self.most = max(self.most, self.dirty)
        return super().append(name, data)

    def sync(self, name: str) -> None:
        self.dirty = 0
        super().sync(name)


def test_a_large_file_is_synced_as_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the sync of another file would wait for all of it."""
    monkeypatch.setattr(whole_file, "SYNC_BYTES", 500)
    monkeypatch.setattr(base, "SYNC_BYTES", 500)
    monkeypatch.setattr(segment, "RECORD_BYTES_MAX", 400)
    rows = " ".join(f"ins(A,{t},inf)" for t in range(200))
    live = Frame.from_elements(DEFAULT_SCHEMA, parse(f"{rows} stable(0)", DEFAULT_SCHEMA))
    disks = CountedDisk(), CountedDisk()
    whole_file.write_whole(disks[0], "checkpoints/a", [b"x" * 100] * 50)
    layout = Layout(DEFAULT_SCHEMA)
    base.write_base(disks[1], layout, "1-1", live, durable=True)
    for disk in disks:
        assert 0 < disk.most < 500 + 400 + 400
        assert not disk.dirty


class FullDisk(SimulatedDisk):
    """Has no room."""

    def free_bytes(self) -> int:
        return 1000


def test_a_full_disk_says_so_and_nothing_is_left_on_it() -> None:
    disk = FullDisk()
    with pytest.raises(DiskFull):
        written(taken(), disk)
    assert disk.list("checkpoints") == disk.list("drafts") == []


# -- deaths -----------------------------------------------------------------------------------


def check_one_death(at: int, *, halfway: bool, machine: bool) -> bool:
    """Whether the death came at all."""
    disk, value, died = DyingDisk(at, halfway=halfway), taken(), False
    try:
        written(value, disk)
    except Died:
        died = True
    disk.revived()
    if machine:
        disk.crash_machine(random.Random(at))
    if disk.exists(PATH):
        assert same(checkpoint.read(disk, NAME, value.tail[0].schema), value)
    else:
        assert died
        written(value, disk)  # what the dead has left is in nobody's way
    return died


def check_deaths() -> int:
    for at in count(1):
        cases = [(h, m) for h in (False, True) for m in (False, True)]
        died = {check_one_death(at, halfway=h, machine=m) for h, m in cases}
        if True not in died:
            return at - 1
    raise AssertionError


def test_a_death_at_any_step_leaves_a_whole_checkpoint_or_none() -> None:
    assert check_deaths() > 5


def test_a_checkpoint_that_is_written_in_its_place_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def in_place(disk: Disk, path: str, records: Sequence[bytes]) -> None:
        for record in records:
            disk.append(path, record)
        disk.sync(path)

    monkeypatch.setattr(checkpoint, "write_whole", in_place)
    with pytest.raises(CheckpointError):
        check_deaths()


def test_a_checkpoint_that_is_not_synced_before_it_has_its_name_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unsynced(disk: Disk, path: str, records: Sequence[bytes]) -> None:
        for record in records:
            disk.append("draft", record)
        disk.link("draft", path)
        disk.unlink("draft")
        disk.sync(path)

    monkeypatch.setattr(checkpoint, "write_whole", unsynced)
    with pytest.raises(CheckpointError):
        check_deaths()
