"""What the manual says, byte by byte, is what is understood."""

from __future__ import annotations

import re
import zlib
from pathlib import Path

import pyarrow as pa

import gapless as gl
from gapless.protocol.elements import INF
from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.client.consumer import Consumer
from gapless.sidecar.client.producer import Producer
from gapless.sidecar.frames import from_wire
from gapless.sidecar.server.limits import Limits
from gapless.sidecar.server.refusals import Code
from gapless.sidecar.server.settings import SidecarSettings, load
from tests.sidecar.helpers import SCHEMA, Caller, frame_of, sidecar

ROOT = Path(__file__).parents[2]
MANUAL = (ROOT / "docs" / "sidecar.md").read_text()
BYTES = (ROOT / "examples" / "sidecar" / "msgpack.txt").read_text()


def shown(after: str) -> bytes:
    """The bytes of the first block behind some words."""
    block = BYTES.partition(after)[2].partition("\n\n")[2].partition("\n\n")[0]
    data = ""
    for line in block.splitlines():
        words = line.strip()
        while (found := re.match(r"((?:[0-9a-f]{2} ){0,}[0-9a-f]{2})(?:  +|$)", words)) is not None:
            data += found[1]
            words = words[found.end() :]
    return bytes.fromhex(data)


def test_the_bytes_of_the_manual_are_a_producer(tmp_path: Path) -> None:
    body = shown("(B, 8) from 6 on:")
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
    names = [f"`{name}`" for name in SidecarSettings.__dataclass_fields__]
    structured = {"`limits`", "`tokens`", "`streams`"}
    limits = [f"`{name}`" for name in Limits.__dataclass_fields__]
    codes = [f"`{code}`" for code in Code.__args__ if code != "INTERNAL"]  # type: ignore[attr-defined]  # of a Literal
    missing = [n for n in [*names, *limits, *codes] if n not in MANUAL and n not in structured]
    assert missing == []


def test_the_settings_file_of_the_examples_is_one() -> None:
    settings = load({}, {}, ROOT / "examples" / "sidecar" / "sidecar.toml").settings
    assert [grant.name for grant in settings.tokens] == ["spark", "flink"]
    assert [stream.name for stream in settings.streams] == ["talkers"]
    assert settings.limits.streams_max == 50


def test_the_changelog_of_the_manual_is_pushed_and_read(tmp_path: Path) -> None:
    section = MANUAL.partition("## Changelogs")[2].partition("## Two sidecars")[0]
    program = "".join(block.split("```")[0] for block in section.split("```python\n")[1:])
    types = {"op": pa.string(), "ts": pa.int64(), "id": pa.string(), "load": pa.int32()}
    rows = [("+I", 1, "a", 10), ("+I", 2, "b", 20), ("+U", 5, "a", 11), ("-D", 9, "b", None)]
    columns = [pa.array(c, t) for c, t in zip(zip(*rows, strict=True), types.values(), strict=True)]
    log = pa.RecordBatch.from_arrays(columns, names=list(types))
    taken: list[pa.RecordBatch] = []
    names = {"gl": gl, "Producer": Producer, "Consumer": Consumer, "sink": taken.append}
    with sidecar(tmp_path) as one:
        here = program.replace("127.0.0.1:7070", one.address)
        exec(here, {**names, "log": [(log, 5), (log.slice(0, 0), INF)]})  # noqa: S102  # our own text
    said = [(row["op"], row["ts"], row["id"]) for batch in taken for row in batch.to_pylist()]
    whole = [("+I", 1, "a"), ("+I", 2, "b"), ("-U", 5, "a"), ("+U", 5, "a"), ("-D", 9, "b")]
    assert said == whole
