"""The post, with boxes that take calls without a cluster."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gapless.actors import post as posts
from gapless.actors import wire
from gapless.actors.book import Book, Entry
from gapless.actors.cluster import HEALTH
from gapless.actors.post import CALL_BYTES_MAX, UNKNOWN_MAX, Post
from gapless.actors.wire import SLICE_BYTES, Wire, joined
from gapless.failover.messages import Data, Life, Message, Session, SnapshotReply
from gapless.protocol.envelope import Incarnation
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

SCHEMA = StreamSchema({"src": "int32"})
FIRST, SECOND = (Life("r0.1", Incarnation(1, n)) for n in (4, 5))
ASKER = Life("r0.0", Incarnation(1, 1))
SAID = SnapshotReply(ASKER, None, "none")


class Calls:
    """An actor's handle that keeps what it is called with."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.hear = self

        self.slices: list[list[bytes]] = []

    def remote(self, *slices: bytes) -> object:
        self.slices.append(list(slices))
        self.heard += Wire(SCHEMA).decode(joined(slices))
        return object()


@pytest.fixture(autouse=True)
def without_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.wait", lambda calls, **_: (calls, []))


def book(version: int, lives: dict[Life, Calls]) -> Book:
    return Book((1, version), {life: Entry(calls, "n1") for life, calls in lives.items()})


def post_with(lives: dict[Life, Calls]) -> Post:
    post = Post(Wire(SCHEMA), lambda work: work())
    post.take_book(book(1, lives))
    return post


def test_an_answer_to_a_life_that_the_book_does_not_have_yet_goes_with_its_next_version() -> None:
    old, new = Calls(), Calls()
    post = post_with({FIRST: old})
    post.send(str(SECOND), SAID)
    post.flush()
    assert (old.heard, new.heard) == ([], [])
    post.take_book(book(2, {FIRST: old, SECOND: new}))
    post.flush()
    assert (old.heard, new.heard) == ([], [SAID])


def test_what_is_for_a_life_before_those_of_the_book_is_lost() -> None:
    post = post_with({SECOND: Calls()})
    post.send(str(FIRST), SAID)
    post.take_book(book(2, {FIRST: Calls(), SECOND: Calls()}))
    assert post.lost == 1


def test_no_more_than_so_many_messages_wait_for_the_next_version() -> None:
    post = post_with({})
    for _ in range(UNKNOWN_MAX + 3):
        post.send(str(SECOND), SAID)
    assert post.lost == 3
    calls = Calls()
    post.take_book(book(2, {SECOND: calls}))
    post.flush()
    assert len(calls.heard) == UNKNOWN_MAX


def test_a_message_to_a_slot_goes_to_its_newest_life() -> None:
    old, new = Calls(), Calls()
    post = post_with({FIRST: old, SECOND: new})
    post.send("r0.1", SAID)
    post.flush()
    assert (old.heard, new.heard) == ([], [SAID])


def test_an_older_version_of_the_book_changes_nothing() -> None:
    calls = Calls()
    post = post_with({FIRST: calls})
    post.take_book(book(0, {}))
    post.send("r0.1", SAID)
    post.flush()
    assert calls.heard == [SAID]


def frames(count: int, rows: int) -> list[Message]:
    times = np.arange(rows, dtype=np.int64)
    column = pa.array(np.arange(rows, dtype=np.int32))
    frame = Frame.from_columns(SCHEMA, times, times + 1, [column])
    return [Data(Session(FIRST, "m0.0", 1), n + 1, frame) for n in range(count)]


def test_no_argument_of_a_call_is_so_large_that_it_would_go_by_an_object_store() -> None:
    """Of which a raylet has to be asked, and one that hangs holds up its askers."""
    assert HEALTH["max_direct_call_object_size"] > SLICE_BYTES
    assert HEALTH["task_rpc_inlined_bytes_limit"] > CALL_BYTES_MAX
    calls = Calls()
    post = post_with({FIRST: calls})
    said = frames(2, 250_000)
    for message in said:
        post.send(str(FIRST), message)
    post.flush()
    sizes = [len(piece) for pieces in calls.slices for piece in pieces]
    assert sum(sizes) > 3 * HEALTH["max_direct_call_object_size"]
    assert max(sizes) <= SLICE_BYTES
    assert calls.heard == said


def test_what_gathers_goes_in_several_calls_where_it_is_too_large_for_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(posts, "CALL_BYTES_MAX", 20_000)
    monkeypatch.setattr(wire, "SLICE_BYTES", 1_000)
    calls = Calls()
    post = post_with({FIRST: calls})
    said = frames(9, 200)
    for message in said:
        post.send(str(FIRST), message)
    post.flush()
    whole = [sum(map(len, pieces)) for pieces in calls.slices]
    assert len(whole) > 1
    assert max(whole) <= 20_000
    assert max(len(piece) for pieces in calls.slices for piece in pieces) <= 1_000
    assert calls.heard == said, "in the order in which they were sent"
