"""The code that was generated from the protocol is what the protocol says now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import gapless.sidecar.gapless_pb2 as pb
from tests.sidecar.helpers import Caller, attach, said, sidecar

ROOT = Path(__file__).parents[2]
MADE = ("gapless_pb2.py", "gapless_pb2.pyi")


def test_the_committed_code_is_what_the_compiler_makes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={ROOT / 'protocol'}"]
    command += [f"--python_out={tmp_path}", f"--pyi_out={tmp_path}", "gapless.proto"]
    subprocess.run(command, check=True)
    for name in MADE:
        made, committed = tmp_path / name, ROOT / "sidecar" / name
        assert made.read_text() == committed.read_text(), "run scripts/protocol.sh, and commit"


def test_a_field_that_is_there_never_changes() -> None:
    """Old and new minor versions talk: numbers and types of version 1.0, as they stay for ever."""
    known = {
        f"{message.name}.{field.name}": (field.number, field.type)
        for message in pb.DESCRIPTOR.message_types_by_name.values()
        for field in message.fields
    }
    assert known["Frame.body"] == (3, 12)
    assert known["Frame.crc32"] == (4, 7)
    assert known["Attach.incarnation"] == (3, 4)
    assert known["Ack.durable_stable"] == (2, 16)
    assert known["Delivery.token"] == (2, 9)


def test_fields_to_come_are_passed_over() -> None:
    later = pb.Ack(sequence=7).SerializeToString() + b"\xf8\x07\x01"  # field 127, which none is
    assert pb.Ack.FromString(later).sequence == 7


def test_a_producer_of_a_later_minor_version_is_understood(tmp_path: Path) -> None:
    field = b"\xfa\x07\x02hi"  # number 127, two bytes: of a version to come

    def later(message: pb.PushRequest) -> bytes:
        return message.SerializeToString() + field

    with sidecar(tmp_path) as one, Caller(one.address) as caller:
        call = caller.channel.stream_stream(
            "/gapless.v1.Sidecar/Push", later, pb.PushReply.FromString
        )
        replies = list(call(iter([attach(), said("ins((A,7),6,20) stable(10)")]), timeout=30))
    assert replies[-1].ack.sequence == 1
