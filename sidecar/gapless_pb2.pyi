from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Encoding(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ENCODING_ARROW: _ClassVar[Encoding]
    ENCODING_MSGPACK: _ClassVar[Encoding]

class Deliver(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DELIVER_CHANGES: _ClassVar[Deliver]
    DELIVER_FINAL: _ClassVar[Deliver]

class Edge(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EDGE_NOW: _ClassVar[Edge]
    EDGE_BEGIN: _ClassVar[Edge]
ENCODING_ARROW: Encoding
ENCODING_MSGPACK: Encoding
DELIVER_CHANGES: Deliver
DELIVER_FINAL: Deliver
EDGE_NOW: Edge
EDGE_BEGIN: Edge

class Frame(_message.Message):
    __slots__ = ("sequence", "encoding", "body", "crc32", "stable")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    CRC32_FIELD_NUMBER: _ClassVar[int]
    STABLE_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    encoding: Encoding
    body: bytes
    crc32: int
    stable: int
    def __init__(self, sequence: _Optional[int] = ..., encoding: _Optional[_Union[Encoding, str]] = ..., body: _Optional[bytes] = ..., crc32: _Optional[int] = ..., stable: _Optional[int] = ...) -> None: ...

class Column(_message.Message):
    __slots__ = ("name", "type", "required")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: str
    required: bool
    def __init__(self, name: _Optional[str] = ..., type: _Optional[str] = ..., required: _Optional[bool] = ...) -> None: ...

class Schema(_message.Message):
    __slots__ = ("arrow", "columns", "time_unit")
    ARROW_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    TIME_UNIT_FIELD_NUMBER: _ClassVar[int]
    arrow: bytes
    columns: _containers.RepeatedCompositeFieldContainer[Column]
    time_unit: str
    def __init__(self, arrow: _Optional[bytes] = ..., columns: _Optional[_Iterable[_Union[Column, _Mapping]]] = ..., time_unit: _Optional[str] = ...) -> None: ...

class Properties(_message.Message):
    __slots__ = ("key", "insert_only")
    KEY_FIELD_NUMBER: _ClassVar[int]
    INSERT_ONLY_FIELD_NUMBER: _ClassVar[int]
    key: bool
    insert_only: bool
    def __init__(self, key: _Optional[bool] = ..., insert_only: _Optional[bool] = ...) -> None: ...

class PushRequest(_message.Message):
    __slots__ = ("attach", "frame", "detach")
    ATTACH_FIELD_NUMBER: _ClassVar[int]
    FRAME_FIELD_NUMBER: _ClassVar[int]
    DETACH_FIELD_NUMBER: _ClassVar[int]
    attach: Attach
    frame: Frame
    detach: Detach
    def __init__(self, attach: _Optional[_Union[Attach, _Mapping]] = ..., frame: _Optional[_Union[Frame, _Mapping]] = ..., detach: _Optional[_Union[Detach, _Mapping]] = ...) -> None: ...

class Attach(_message.Message):
    __slots__ = ("stream", "producer", "incarnation", "schema", "properties", "join_at", "tail_frames")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    JOIN_AT_FIELD_NUMBER: _ClassVar[int]
    TAIL_FRAMES_FIELD_NUMBER: _ClassVar[int]
    stream: str
    producer: str
    incarnation: int
    schema: Schema
    properties: Properties
    join_at: int
    tail_frames: int
    def __init__(self, stream: _Optional[str] = ..., producer: _Optional[str] = ..., incarnation: _Optional[int] = ..., schema: _Optional[_Union[Schema, _Mapping]] = ..., properties: _Optional[_Union[Properties, _Mapping]] = ..., join_at: _Optional[int] = ..., tail_frames: _Optional[int] = ...) -> None: ...

class Detach(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class PushReply(_message.Message):
    __slots__ = ("attached", "ack", "detached")
    ATTACHED_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    DETACHED_FIELD_NUMBER: _ClassVar[int]
    attached: Attached
    ack: Ack
    detached: Detached
    def __init__(self, attached: _Optional[_Union[Attached, _Mapping]] = ..., ack: _Optional[_Union[Ack, _Mapping]] = ..., detached: _Optional[_Union[Detached, _Mapping]] = ...) -> None: ...

class Attached(_message.Message):
    __slots__ = ("sidecar", "epoch", "durable_stable", "feedback", "credits", "frame_bytes_max")
    SIDECAR_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    DURABLE_STABLE_FIELD_NUMBER: _ClassVar[int]
    FEEDBACK_FIELD_NUMBER: _ClassVar[int]
    CREDITS_FIELD_NUMBER: _ClassVar[int]
    FRAME_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    sidecar: str
    epoch: int
    durable_stable: int
    feedback: int
    credits: int
    frame_bytes_max: int
    def __init__(self, sidecar: _Optional[str] = ..., epoch: _Optional[int] = ..., durable_stable: _Optional[int] = ..., feedback: _Optional[int] = ..., credits: _Optional[int] = ..., frame_bytes_max: _Optional[int] = ...) -> None: ...

class Ack(_message.Message):
    __slots__ = ("sequence", "durable_stable", "feedback", "credits", "throttled")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    DURABLE_STABLE_FIELD_NUMBER: _ClassVar[int]
    FEEDBACK_FIELD_NUMBER: _ClassVar[int]
    CREDITS_FIELD_NUMBER: _ClassVar[int]
    THROTTLED_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    durable_stable: int
    feedback: int
    credits: int
    throttled: bool
    def __init__(self, sequence: _Optional[int] = ..., durable_stable: _Optional[int] = ..., feedback: _Optional[int] = ..., credits: _Optional[int] = ..., throttled: _Optional[bool] = ...) -> None: ...

class Detached(_message.Message):
    __slots__ = ("why", "reason", "sequence")
    class Why(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        WHY_UNKNOWN: _ClassVar[Detached.Why]
        WHY_DRAINING: _ClassVar[Detached.Why]
        WHY_FENCED: _ClassVar[Detached.Why]
        WHY_ABSENT: _ClassVar[Detached.Why]
        WHY_BAD_CONTENT: _ClassVar[Detached.Why]
        WHY_FULL: _ClassVar[Detached.Why]
        WHY_LEFT: _ClassVar[Detached.Why]
        WHY_LOST: _ClassVar[Detached.Why]
        WHY_DAMAGED: _ClassVar[Detached.Why]
        WHY_REMOVED: _ClassVar[Detached.Why]
    WHY_UNKNOWN: Detached.Why
    WHY_DRAINING: Detached.Why
    WHY_FENCED: Detached.Why
    WHY_ABSENT: Detached.Why
    WHY_BAD_CONTENT: Detached.Why
    WHY_FULL: Detached.Why
    WHY_LEFT: Detached.Why
    WHY_LOST: Detached.Why
    WHY_DAMAGED: Detached.Why
    WHY_REMOVED: Detached.Why
    WHY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    why: Detached.Why
    reason: str
    sequence: int
    def __init__(self, why: _Optional[_Union[Detached.Why, str]] = ..., reason: _Optional[str] = ..., sequence: _Optional[int] = ...) -> None: ...

class SubscribeRequest(_message.Message):
    __slots__ = ("stream", "deliver", "edge", "time", "token", "columns", "filter", "encoding", "subscriber")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    DELIVER_FIELD_NUMBER: _ClassVar[int]
    EDGE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBER_FIELD_NUMBER: _ClassVar[int]
    stream: str
    deliver: Deliver
    edge: Edge
    time: int
    token: str
    columns: _containers.RepeatedScalarFieldContainer[str]
    filter: str
    encoding: Encoding
    subscriber: str
    def __init__(self, stream: _Optional[str] = ..., deliver: _Optional[_Union[Deliver, str]] = ..., edge: _Optional[_Union[Edge, str]] = ..., time: _Optional[int] = ..., token: _Optional[str] = ..., columns: _Optional[_Iterable[str]] = ..., filter: _Optional[str] = ..., encoding: _Optional[_Union[Encoding, str]] = ..., subscriber: _Optional[str] = ...) -> None: ...

class Delivery(_message.Message):
    __slots__ = ("frames", "token", "reset", "since", "more", "subscribed")
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBED_FIELD_NUMBER: _ClassVar[int]
    frames: _containers.RepeatedCompositeFieldContainer[Frame]
    token: str
    reset: bool
    since: int
    more: bool
    subscribed: Subscribed
    def __init__(self, frames: _Optional[_Iterable[_Union[Frame, _Mapping]]] = ..., token: _Optional[str] = ..., reset: _Optional[bool] = ..., since: _Optional[int] = ..., more: _Optional[bool] = ..., subscribed: _Optional[_Union[Subscribed, _Mapping]] = ...) -> None: ...

class Subscribed(_message.Message):
    __slots__ = ("sidecar", "epoch", "schema", "properties", "lmerge_case")
    SIDECAR_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    LMERGE_CASE_FIELD_NUMBER: _ClassVar[int]
    sidecar: str
    epoch: int
    schema: Schema
    properties: Properties
    lmerge_case: str
    def __init__(self, sidecar: _Optional[str] = ..., epoch: _Optional[int] = ..., schema: _Optional[_Union[Schema, _Mapping]] = ..., properties: _Optional[_Union[Properties, _Mapping]] = ..., lmerge_case: _Optional[str] = ...) -> None: ...

class TableRequest(_message.Message):
    __slots__ = ("stream", "columns", "filter", "encoding", "at")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    stream: str
    columns: _containers.RepeatedScalarFieldContainer[str]
    filter: str
    encoding: Encoding
    at: int
    def __init__(self, stream: _Optional[str] = ..., columns: _Optional[_Iterable[str]] = ..., filter: _Optional[str] = ..., encoding: _Optional[_Union[Encoding, str]] = ..., at: _Optional[int] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ("stream",)
    STREAM_FIELD_NUMBER: _ClassVar[int]
    stream: str
    def __init__(self, stream: _Optional[str] = ...) -> None: ...

class StatusReply(_message.Message):
    __slots__ = ("sidecar", "version", "protocol_minor", "draining", "streams")
    SIDECAR_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_MINOR_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    sidecar: str
    version: str
    protocol_minor: int
    draining: bool
    streams: _containers.RepeatedCompositeFieldContainer[StreamStatus]
    def __init__(self, sidecar: _Optional[str] = ..., version: _Optional[str] = ..., protocol_minor: _Optional[int] = ..., draining: _Optional[bool] = ..., streams: _Optional[_Iterable[_Union[StreamStatus, _Mapping]]] = ...) -> None: ...

class StreamStatus(_message.Message):
    __slots__ = ("name", "schema", "properties", "lmerge_case", "epoch", "stable", "durable_stable", "rows", "producers", "subscribers", "divergences", "detached", "waiting_for", "lost")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    LMERGE_CASE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STABLE_FIELD_NUMBER: _ClassVar[int]
    DURABLE_STABLE_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    PRODUCERS_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBERS_FIELD_NUMBER: _ClassVar[int]
    DIVERGENCES_FIELD_NUMBER: _ClassVar[int]
    DETACHED_FIELD_NUMBER: _ClassVar[int]
    WAITING_FOR_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    name: str
    schema: Schema
    properties: Properties
    lmerge_case: str
    epoch: int
    stable: int
    durable_stable: int
    rows: int
    producers: _containers.RepeatedCompositeFieldContainer[ProducerStatus]
    subscribers: int
    divergences: int
    detached: int
    waiting_for: str
    lost: str
    def __init__(self, name: _Optional[str] = ..., schema: _Optional[_Union[Schema, _Mapping]] = ..., properties: _Optional[_Union[Properties, _Mapping]] = ..., lmerge_case: _Optional[str] = ..., epoch: _Optional[int] = ..., stable: _Optional[int] = ..., durable_stable: _Optional[int] = ..., rows: _Optional[int] = ..., producers: _Optional[_Iterable[_Union[ProducerStatus, _Mapping]]] = ..., subscribers: _Optional[int] = ..., divergences: _Optional[int] = ..., detached: _Optional[int] = ..., waiting_for: _Optional[str] = ..., lost: _Optional[str] = ...) -> None: ...

class ProducerStatus(_message.Message):
    __slots__ = ("producer", "incarnation", "stable", "qualified", "led", "connected")
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    STABLE_FIELD_NUMBER: _ClassVar[int]
    QUALIFIED_FIELD_NUMBER: _ClassVar[int]
    LED_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    producer: str
    incarnation: int
    stable: int
    qualified: bool
    led: int
    connected: bool
    def __init__(self, producer: _Optional[str] = ..., incarnation: _Optional[int] = ..., stable: _Optional[int] = ..., qualified: _Optional[bool] = ..., led: _Optional[int] = ..., connected: _Optional[bool] = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DrainReply(_message.Message):
    __slots__ = ("streams",)
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    streams: int
    def __init__(self, streams: _Optional[int] = ...) -> None: ...

class RemoveRequest(_message.Message):
    __slots__ = ("stream", "producer")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    stream: str
    producer: str
    def __init__(self, stream: _Optional[str] = ..., producer: _Optional[str] = ...) -> None: ...

class RemoveReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
