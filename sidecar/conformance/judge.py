"""The judge: what a client says, call by call, against the rules. Pure: the peer hands it messages.

    Examined    what is known of the client over all calls: its events, its stable, what it was told
    CallJudge   one call: attach --> tail --> frames --> detach       raises `RuleBreach`

An event that the peer has been told has to be told again in the next call, unless both stables have
passed its end: at the latest before a stable that passes its start.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gapless.protocol.elements import BEGIN, INF, Adjust, Insert, Stable, format_time
from gapless.protocol.errors import GaplessError
from gapless.protocol.frame import Frame
from gapless.sidecar import gapless_pb2 as pb
from gapless.sidecar.conformance import workload
from gapless.sidecar.conformance.rules import RuleBreach
from gapless.sidecar.definition import Definition
from gapless.sidecar.frames import from_wire
from gapless.sidecar.lives import INCARNATION_MAX, life_of
from gapless.sidecar.server.limits import Limits
from gapless.sidecar.server.refusals import Refusal

CREDITS = 2
"""Few, so that a client that does not count them is soon seen."""


@dataclass
class Examined:
    """One client, on one stream."""

    ends: dict[int, int] = field(default_factory=dict)
    """By n, where the event ends that the client has told."""
    own: int = BEGIN
    """The last stable that it sent."""
    durable: int = BEGIN
    """The largest durable stable in the acks that it got."""
    incarnation: int = -1
    absent: bool = False
    """Whether it was informed that its incarnation was let go."""

    @property
    def floor(self) -> int:
        """What ends before it is settled for both."""
        return min(self.durable, self.own)


class CallJudge:
    """One push call."""

    def __init__(self, client: Examined) -> None:
        self.frames = 0
        """How many frames with a sequence have come."""
        self.acked = 0
        self.has_ended = False
        """Whether it has pushed everything, and detached."""
        self._client = client
        self._attach: pb.Attach | None = None
        self._tail = 0
        self._before = dict(client.ends)  # what it had told before this call
        self._floor, self._durable = client.floor, client.durable
        self._told: dict[int, int] = {}
        self._own = BEGIN

    @property
    def is_begun(self) -> bool:
        """Whether the attach has come."""
        return self._attach is not None

    @property
    def is_attached(self) -> bool:
        """Whether the attach has come, and its whole tail."""
        return self._attach is not None and not self._tail

    @property
    def under_way(self) -> int:
        """Frames that have come and were not acknowledged."""
        return self.frames - self.acked

    def take(self, request: pb.PushRequest) -> None:
        """The next message."""
        kind = request.WhichOneof("message")
        if self.has_ended:
            raise RuleBreach(9, f"a {kind} came after the detach")
        if self._attach is None:
            if kind != "attach":
                raise RuleBreach(1, f"a {kind} came first, not the attach")
            self._take_attach(request.attach)
        elif kind == "attach":
            raise RuleBreach(1, "a second attach came in one call")
        elif self._tail:
            if kind != "frame":
                raise RuleBreach(
                    6, f"a {kind} came, and {self._tail} frames of the tail are missing"
                )
            self._take_tail(request.frame)
        elif kind == "frame":
            self._take_frame(request.frame)
        else:
            self._take_detach()

    # -- messages -----------------------------------------------------------------------------

    def _take_attach(self, attach: pb.Attach) -> None:
        client = self._client
        self._attach = attach
        if attach.incarnation > INCARNATION_MAX:
            raise RuleBreach(
                1, f"incarnation {attach.incarnation}: {INCARNATION_MAX} is the largest"
            )
        if client.absent and attach.incarnation <= client.incarnation:
            raise RuleBreach(
                10,
                f"it was told WHY_ABSENT, and attaches again as {attach.incarnation}, no larger "
                f"than {client.incarnation}",
            )
        if attach.incarnation < client.incarnation:
            raise RuleBreach(
                1, f"incarnation {attach.incarnation} after {client.incarnation}: it does not grow"
            )
        try:
            life_of(attach.producer, attach.incarnation)
            definition = Definition.of_attach(attach)
        except GaplessError as e:
            raise RuleBreach(1, str(e)) from None
        if definition is not None and definition.schema != workload.SCHEMA:
            raise RuleBreach(0, f"the stream has the column n: int64, not {definition.schema}")
        if attach.HasField("join_at") and attach.join_at > client.durable:
            raise RuleBreach(
                5,
                f"join_at {format_time(attach.join_at)} is beyond the durable stable "
                f"{format_time(client.durable)}: nobody would tell what is between them",
            )
        client.incarnation, client.absent = attach.incarnation, False
        self._tail = attach.tail_frames

    def _take_tail(self, message: pb.Frame) -> None:
        self._tail -= 1
        if message.sequence:
            raise RuleBreach(6, f"a frame of the tail has sequence {message.sequence}, not 0")
        if self._tail and message.HasField("stable"):
            raise RuleBreach(6, "a frame of the tail that is not the last has a stable")
        if self._tail and not message.body:
            raise RuleBreach(6, "a frame of the tail that is not the last has no rows")
        self._take_rows(message)

    def _take_frame(self, message: pb.Frame) -> None:
        if 0 < message.sequence <= self.frames:
            return  # said twice
        if message.sequence != self.frames + 1:
            raise RuleBreach(2, f"frame {message.sequence} came, and {self.frames + 1} is next")
        self.frames += 1
        if self.under_way > CREDITS:
            raise RuleBreach(
                3, f"{self.under_way} frames are not acknowledged, and there are {CREDITS} credits"
            )
        self._take_rows(message)

    def _take_detach(self) -> None:
        if self._own != INF:
            raise RuleBreach(
                9, f"it detaches with the stable {format_time(self._own)}: more was to be said"
            )
        self.has_ended = True

    # -- rows ---------------------------------------------------------------------------------

    def _take_rows(self, message: pb.Frame) -> None:
        size = len(message.body)
        if size > Limits().frame_bytes_max:
            raise RuleBreach(8, f"a body of {size} bytes: {Limits().frame_bytes_max} are the most")
        try:
            frame: Frame = from_wire(message, workload.SCHEMA)
        except Refusal as e:
            raise RuleBreach(8, str(e)) from None
        for element in frame.elements():
            if isinstance(element, Insert):
                self._insert(element)
            elif isinstance(element, Adjust):
                self._adjust(element)
            else:
                self._stable(element)

    def _insert(self, event: Insert) -> None:
        n = event.payload[0]
        if event.vs != n or not 1 <= n <= workload.STEPS:
            raise RuleBreach(0, f"{event} is none of the workload's events")
        if event.vs < self._own:
            raise RuleBreach(7, f"{event} comes after stable({format_time(self._own)})")
        if n in self._told:
            raise RuleBreach(7, f"{event} is said twice in one call, which is two events")
        self._said(n, event.ve)

    def _adjust(self, event: Adjust) -> None:
        n = event.payload[0]
        end = self._told.get(n)
        if end is None:
            if n in self._before:
                raise self._forgotten(n, f"{event} is of what this call has not told")
            raise RuleBreach(7, f"{event} is of what it never told")
        if end != event.was:
            raise RuleBreach(7, f"{event}: the event ends at {format_time(end)}")
        if min(event.was, event.ve) < self._own:
            raise RuleBreach(7, f"{event} comes after stable({format_time(self._own)})")
        self._said(n, event.ve)

    def _said(self, n: int, end: int) -> None:
        self._told[n] = self._client.ends[n] = end

    def _stable(self, event: Stable) -> None:
        t = event.t
        if t < self._own:
            raise RuleBreach(7, f"{event} comes after stable({format_time(self._own)})")
        self._own = t
        self._client.own = max(t, self._client.own)
        for n in range(1, workload.STEPS + 1):
            if n >= t:
                return
            told, known = self._told.get(n), self._before.get(n)
            if told is None and (known is None or known >= self._floor):
                raise self._forgotten(n, f"{event} passes the start of n={n}, and it is not told")
            if told is not None and told < t and told != workload.final(n):
                raise RuleBreach(
                    7, f"{event} freezes the end {told} of n={n}, which is {workload.final(n)}"
                )

    def _forgotten(self, n: int, what: str) -> RuleBreach:
        end = self._before.get(n)
        if end is not None and self._floor <= end < self._durable:
            return RuleBreach(
                4,
                f"{what}: the call before told that it ends at {end}, which is before the durable "
                f"stable {self._durable}, and not before its own, {format_time(self._floor)}",
            )
        return RuleBreach(5, f"{what} in this call")
