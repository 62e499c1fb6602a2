"""What the manual says, byte by byte, is what is understood."""

from __future__ import annotations

import re
import zlib
from pathlib import Path

from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.frames import from_wire
from gapless.sidecar.limits import Limits
from gapless.sidecar.refusals import Code
from gapless.sidecar.settings import Settings
from tests.sidecar.helpers import SCHEMA, Caller, frame_of, sidecar

MANUAL = (Path(__file__).parents[2] / "docs" / "sidecar.md").read_text()


def shown(after: str) -> bytes:
    """The bytes of the first block behind some words."""
    block = MANUAL.partition(after)[2].partition("\n\n")[2].partition("\n\n")[0]
    data = ""
    for line in block.splitlines():
        words = line.strip()
        while (found := re.match(r"((?:[0-9a-f]{2} ){0,}[0-9a-f]{2})(?:  +|$)", words)) is not None:
            data += found[1]
            words = words[found.end() :]
    return bytes.fromhex(data)


def test_the_bytes_of_the_manual_are_a_producer(tmp_path: Path) -> None:
    body = shown("`(B, 8)` from 6 on:")
    attach = pb.PushRequest.FromString(shown("for a schema by names:"))
    frame = pb.Frame(sequence=1, encoding=pb.ENCODING_MSGPACK, body=body, stable=10)
    frame.crc32 = 0x9E8687EA
    assert zlib.crc32(body) == frame.crc32
    assert len(pb.PushRequest(frame=frame).SerializeToString()) == 2 + 0x38
    assert from_wire(frame, SCHEMA) == frame_of("ins((A,7),6,20) ins((B,8),6,inf) stable(10)")
    with sidecar(tmp_path) as one, Caller(one.address) as caller:
        replies = caller.push(attach, pb.PushRequest(frame=frame))
    assert replies[-1].ack.sequence == 1


def test_every_setting_limit_and_code_is_in_the_manual() -> None:
    names = [f"`{name}`" for name in Settings.__dataclass_fields__]
    structured = {"`limits`", "`tokens`", "`streams`"}
    limits = [f"`{name}`" for name in Limits.__dataclass_fields__]
    codes = [f"`{code}`" for code in Code.__args__ if code != "INTERNAL"]  # type: ignore[attr-defined]  # of a Literal
    missing = [n for n in [*names, *limits, *codes] if n not in MANUAL and n not in structured]
    assert missing == []
