"""The hub: takes packets from hosts and hands them on, each at its moment, or not at all.

    packet(host, bytes, now) --> rule of the pair --> at once ------------------> send(host, bytes)
                                                 '--> heap of those that wait --> release(now)

It opens no device and reads no clock: switch_process.py does, and tests give it what they like.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from itertools import count

from gapless.chaos.drill.means.connections import Connections
from gapless.chaos.drill.means.packets import TCP, Segment, reset, reset_answering, segment_of
from gapless.chaos.drill.means.rules import HostLink, PacketCounts, Rule

_HEAD_BYTES = 20

Send = Callable[[int, memoryview | bytes], bool]
"""Gives a host a packet; whether it was taken."""
_Held = tuple[float, int, int, int, bytes]
"""When, its number (so that equals keep their order), from, to, the packet."""


class Hub:
    """Hosts 1 to `hosts`, whose addresses are a prefix of three bytes and their number."""

    def __init__(self, hosts: int, prefix: bytes, send: Send, seed: int = 0) -> None:
        self._hosts = hosts
        self._prefix = prefix
        self._send = send
        self._links = {
            (a, b): HostLink(f"{seed}/{a}>{b}")
            for a in range(1, hosts + 1)
            for b in range(1, hosts + 1)
            if a != b
        }
        self._connections = Connections()
        self._held: list[_Held] = []
        self._numbers = count(1)

    # -- packets ------------------------------------------------------------------------------

    def packet(self, host: int, packet: memoryview, now_s: float) -> None:
        """Takes what a host has sent. What is not an IPv4 from it to another host is noise."""
        size = len(packet)
        if size < _HEAD_BYTES or packet[0] >> 4 != 4 or packet[15] != host:
            return
        if packet[12:15] != self._prefix or packet[16:19] != self._prefix:
            return
        to = packet[19]
        link = self._links.get((host, to))
        if link is None:
            return
        segment = segment_of(packet) if packet[9] == TCP else None
        if segment is not None and not self._connections.saw(host, to, segment):
            link.counts.dropped += 1
            self._refuse(host, to, segment)
            return
        if not link.has_rule:  # nothing of it waits then, either
            self._pass(link, next(self._numbers), to, packet)
            return
        self._ruled(link, host, to, packet, segment, now_s)

    def _ruled(
        self,
        link: HostLink,
        host: int,
        to: int,
        packet: memoryview,
        segment: Segment | None,
        now_s: float,
    ) -> None:
        self.release(now_s)  # what is due by now goes first
        at_s = link.when(now_s, len(packet))
        if at_s is None:
            link.counts.dropped += 1
            if link.rule.refuse and segment is not None:
                self._refuse(host, to, segment)
            return
        number = next(self._numbers)
        if at_s <= now_s:
            self._pass(link, number, to, packet)
            return
        link.counts.delayed += 1
        link.held_bytes += len(packet)
        heapq.heappush(self._held, (at_s, number, host, to, bytes(packet)))

    def _pass(self, link: HostLink, number: int, to: int, packet: memoryview | bytes) -> None:
        if not self._send(to, packet):
            link.counts.dropped += 1
            return
        link.counts.passed += 1
        if number < link.highest:
            link.counts.reordered += 1
        else:
            link.highest = number

    @property
    def next_s(self) -> float:
        """When `release` has something to do; infinite where nothing waits."""
        return self._held[0][0] if self._held else math.inf

    def release(self, now_s: float) -> None:
        """Hands on what is due."""
        held = self._held
        while held and held[0][0] <= now_s:
            self._let_go(heapq.heappop(held))

    def _let_go(self, held: _Held) -> None:
        _, number, host, to, packet = held
        link = self._links[host, to]
        link.held_bytes -= len(packet)
        self._pass(link, number, to, packet)

    # -- orders -------------------------------------------------------------------------------

    def rule(self, a: int, b: int, rule: Rule) -> None:
        """From now on. What waits of this pair goes on at once, in its order, or is dropped."""
        link = self._links[a, b]
        link.set(rule)
        waiting = sorted(held for held in self._held if held[2:4] == (a, b))
        if not waiting:
            return
        self._held = [held for held in self._held if held[2:4] != (a, b)]
        heapq.heapify(self._held)
        if rule.drop or rule.refuse:
            link.held_bytes = 0
            link.counts.dropped += len(waiting)
            return
        for held in waiting:
            self._let_go(held)

    def clear(self) -> None:
        """Lifts all rules."""
        for (a, b), link in self._links.items():
            if link.has_rule:
                self.rule(a, b, Rule())

    def reset(self, a: int, b: int) -> int:
        """Ends all TCP connections between two hosts; how many."""
        ended = 0
        for (low, low_port, high, high_port), known in self._connections.end(a, b):
            ends = ((low, low_port), (high, high_port))
            for side, (host, port) in enumerate(ends):
                other, other_port = ends[1 - side]
                for number in known.numbers_for(side):
                    ack = known.next[side] or 0
                    self._forged(other, host, other_port, port, number, ack)
                self._links[other, host].counts.reset += 1
            ended += 1
        return ended

    def counts(self) -> dict[tuple[int, int], PacketCounts]:
        """Of each pair."""
        return {pair: link.counts for pair, link in self._links.items()}

    # -- forged -------------------------------------------------------------------------------

    def _refuse(self, host: int, to: int, segment: Segment) -> None:
        answer = reset_answering(self._address(host), self._address(to), segment)
        if answer is not None:
            self._send(host, answer)
            self._links[host, to].counts.reset += 1

    def _forged(self, a: int, b: int, a_port: int, b_port: int, seq: int, ack: int) -> None:
        self._send(b, reset(self._address(a), self._address(b), a_port, b_port, seq, ack))

    def _address(self, host: int) -> bytes:
        return self._prefix + bytes([host])
