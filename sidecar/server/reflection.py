"""Reflection: what calls there are, for tools that have no file of the protocol.

    grpc.reflection.v1         what tools ask for today
    grpc.reflection.v1alpha    the same messages by their older name, which older tools ask for

The library has the older one alone. On the wire the two differ by the name of the service and of
its package, so the newer is made of the older: its file by the other name, and the same servicer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool
from grpc_reflection.v1alpha import reflection, reflection_pb2

from gapless.sidecar.server import grpc_server

ALPHA = reflection.SERVICE_NAME
V1 = ALPHA.replace("v1alpha", "v1")


def add(server: grpc.aio.Server, services: Sequence[str]) -> None:
    """Has a server describe these services, and list reflection among them."""
    _describe_v1()
    names = [*services, V1, ALPHA]
    servicer = reflection.aio.ReflectionServicer(names)
    method = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        reflection_pb2.ServerReflectionRequest.FromString,
        reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    for name in (V1, ALPHA):
        grpc_server.register(server, name, {"ServerReflectionInfo": method})


def _describe_v1() -> None:
    """The newer file, where descriptions are looked up."""
    file = descriptor_pb2.FileDescriptorProto()
    reflection_pb2.DESCRIPTOR.CopyToProto(file)
    _rename(file)
    descriptor_pool.Default().AddSerializedFile(file.SerializeToString())


def _rename(message: Any) -> None:
    """Every text in it that has the older name has the newer one."""
    for field, value in message.ListFields():
        if field.message_type is not None:
            for each in value if field.is_repeated else (value,):
                _rename(each)
        elif field.type == field.TYPE_STRING and not field.is_repeated:
            setattr(message, field.name, value.replace("v1alpha", "v1"))
