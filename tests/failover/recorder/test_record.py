"""A flight record reads back whole, or is refused with what to do; it runs no code of its own."""

from __future__ import annotations

import os
import pickle
import sys
import zlib
from types import ModuleType
from typing import Any

import pytest

from gapless.failover.effects import Start, Tick
from gapless.failover.machines import Event
from gapless.failover.merger.effects import Appended
from gapless.failover.recorder import image as images
from gapless.failover.recorder import record as records
from gapless.failover.recorder.record import FORMAT, decode, encode
from gapless.failover.recorder.recorder import Taken
from gapless.failover.recorder.replay import replayed
from gapless.protocol.envelope import Incarnation, encode_document
from gapless.protocol.errors import DecodeError, RecordError

EVENTS: list[tuple[Event, int]] = [(Start(), 1), (Tick(), 51), (Appended(3, 4), 60)]
DATA = encode(Taken("Merger", None, "it is too large", EVENTS), "m0.0/1.2", "why", "0.1.0", {})


def test_a_record_reads_back_as_it_was_written() -> None:
    record = decode(DATA)
    assert (record.life, record.machine, record.reason) == ("m0.0/1.2", "Merger", "why")
    assert record.release == "0.1.0"
    assert record.events == EVENTS


def test_whatever_bit_of_a_record_is_flipped_and_wherever_it_is_cut_it_is_refused() -> None:
    for at in range(len(DATA)):
        damaged = bytearray(DATA)
        damaged[at] ^= 1 << at % 8
        for data in (bytes(damaged), DATA[:at]):
            with pytest.raises(RecordError, match="gapless status JOB --record DIR"):
                decode(data)


def test_a_record_of_another_format_or_of_something_else_is_refused() -> None:
    body = images.written((None, []))
    head: dict[str, Any] = {
        "format": FORMAT,
        "what": "flight record",
        "bytes": len(body),
        "crc": zlib.crc32(body),
    }
    for field, value in (("format", FORMAT + 1), ("what", "checkpoint")):
        made = encode_document({**head, field: value}, Incarnation(0, 0), 0) + body
        with pytest.raises(RecordError, match=str(value)):
            decode(made)


def test_a_larger_file_than_any_record_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "RECORD_BYTES_MAX", 100)
    with pytest.raises(RecordError, match="100 at most"):
        decode(DATA)


def test_of_a_long_reason_the_beginning_is_kept() -> None:
    data = encode(Taken("Merger", None, "", []), "m0.0/1.2", "x" * 10_000, "0", {})
    assert len(decode(data).reason) == records.REASON_CHARS_MAX


def test_events_alone_are_not_replayed_and_it_says_why() -> None:
    with pytest.raises(RecordError, match=r"it is too large; `--events` shows them"):
        list(replayed(decode(DATA)))


class Evil:
    def __init__(self, call: Any, *args: Any) -> None:
        self.reduced = call, args

    def __reduce__(self) -> Any:
        return self.reduced


@pytest.mark.parametrize(
    "evil",
    [
        Evil(os.getpid),
        Evil(eval, "1 + 1"),
        Evil(getattr, "text", "upper"),
        Evil(pickle.loads, b"N."),
    ],
    ids=["os", "eval", "getattr", "pickle"],
)
def test_an_image_that_calls_what_is_no_part_of_a_machine_is_refused(evil: Evil) -> None:
    with pytest.raises(DecodeError, match="names"):
        images.read(pickle.dumps(evil), lambda *_: pytest.fail("no executor is asked for"))


def test_a_closure_of_a_machine_is_read_where_the_same_code_stands_and_not_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = ModuleType("gapless.failover.planted")
    exec("def outer(x):\n    return lambda y: x + y\n", vars(module))  # noqa: S102  # of this test
    monkeypatch.setitem(sys.modules, module.__name__, module)
    data = images.written(module.outer(3))

    def read() -> Any:
        return images.read(data, lambda *_: pytest.fail("no executor is asked for"))

    assert read()(4) == 7
    crc = images._sum
    monkeypatch.setattr(images, "_sum", lambda code: crc(code) + 1)
    with pytest.raises(DecodeError, match="has other code"):
        read()
