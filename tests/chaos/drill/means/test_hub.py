"""A hub hands packets on as rules say, answers for unreachable hosts, and ends connections."""

from __future__ import annotations

import random

import pytest

from gapless.chaos.drill.means.connections import Connections
from gapless.chaos.drill.means.hub import Hub
from gapless.chaos.drill.means.packets import ACK, FIN, RST, SYN, Segment, segment_of, tcp_packet
from gapless.chaos.drill.means.rules import HELD_S, Rule

PREFIX = bytes([10, 1, 2])


def address(host: int) -> bytes:
    return PREFIX + bytes([host])


class Net:
    """A hub of three hosts, with what each was given."""

    def __init__(self, seed: int = 0) -> None:
        self.came: dict[int, list[bytes]] = {1: [], 2: [], 3: []}
        self.has_room = True
        self.hub = Hub(3, PREFIX, self._send, seed)

    def _send(self, host: int, packet: memoryview | bytes) -> bool:
        if self.has_room:
            self.came[host].append(bytes(packet))
        return self.has_room

    def say(
        self, a: int, b: int, seq: int, ack: int = 0, flags: int = ACK, size: int = 0, at: float = 0
    ) -> bytes:
        """From a's port 1000 + a to b's: the same connection both ways."""
        segment = Segment(1_000 + a, 1_000 + b, seq, ack, flags, size)
        packet = tcp_packet(address(a), address(b), segment, bytes(size))
        self.hub.packet(a, memoryview(packet), at)
        return packet

    def number(self, a: int, b: int, number: int, at: float) -> None:
        """A packet that is no TCP, with a number in it."""
        packet = bytearray(tcp_packet(address(a), address(b), Segment(0, 0, number, 0, 0, 0)))
        packet[9] = 17
        self.hub.packet(a, memoryview(packet), at)

    def numbers(self, host: int) -> list[int]:
        return [int.from_bytes(packet[24:28], "big") for packet in self.came[host]]

    def resets(self, host: int) -> list[Segment]:
        found = [segment_of(packet) for packet in self.came[host]]
        return [each for each in found if each is not None and each.flags & RST]

    def has_connection(self) -> None:
        """Between 1 and 2, on which both have sent ten bytes and acked them."""
        self.say(1, 2, 100, flags=SYN)
        self.say(2, 1, 500, 101, flags=SYN | ACK)
        self.say(1, 2, 101, 501, size=10)
        self.say(2, 1, 501, 111, size=10)
        self.say(1, 2, 111, 511)
        self.came = {1: [], 2: [], 3: []}


@pytest.fixture
def net() -> Net:
    return Net()


def test_without_a_rule_a_packet_goes_to_its_host_at_once(net: Net) -> None:
    packet = net.say(1, 2, 1)
    assert net.came == {1: [], 2: [packet], 3: []}
    assert net.hub.counts()[1, 2].numbers() == [1, 0, 0, 0, 0]


def test_noise_goes_nowhere(net: Net) -> None:
    good = tcp_packet(address(1), address(2), Segment(1, 2, 3, 4, ACK, 0))
    for noise in (
        b"",
        good[:19],
        b"\x60" + good[1:],  # IPv6
        tcp_packet(address(3), address(2), Segment(1, 2, 3, 4, ACK, 0)),  # not its own address
        tcp_packet(address(1), bytes([10, 1, 3, 2]), Segment(1, 2, 3, 4, ACK, 0)),
        tcp_packet(address(1), address(4), Segment(1, 2, 3, 4, ACK, 0)),
        tcp_packet(address(1), address(1), Segment(1, 2, 3, 4, ACK, 0)),
        tcp_packet(address(1), bytes([224, 0, 0, 1]), Segment(1, 2, 3, 4, ACK, 0)),
    ):
        net.hub.packet(1, memoryview(noise), 0.0)
    assert net.came == {1: [], 2: [], 3: []}


def test_a_dropping_pair_is_silent_and_its_way_back_is_open(net: Net) -> None:
    net.hub.rule(1, 2, Rule(drop=True))
    net.say(1, 2, 1)
    back = net.say(2, 1, 1)
    assert net.came == {1: [back], 2: [], 3: []}
    assert net.hub.counts()[1, 2].numbers() == [0, 1, 0, 0, 0]


def test_a_refusing_pair_answers_tcp_and_nothing_else(net: Net) -> None:
    net.hub.rule(1, 2, Rule(refuse=True))
    net.say(1, 2, 7, 9)
    net.number(1, 2, 1, 0.0)
    net.say(1, 2, 7, flags=RST)
    assert net.came[2] == []
    (answer,) = net.resets(1)
    assert (answer.seq, answer.from_port, answer.to_port) == (9, 1_002, 1_001)
    assert net.hub.counts()[1, 2].numbers() == [0, 3, 0, 0, 1]


def test_a_delayed_packet_comes_at_its_moment_and_no_earlier(net: Net) -> None:
    net.hub.rule(1, 2, Rule(delay_ms=20))
    net.number(1, 2, 1, 1.0)
    net.number(1, 2, 2, 1.001)
    assert net.hub.next_s == pytest.approx(1.020)
    net.hub.release(1.0199)
    assert net.numbers(2) == []
    net.hub.release(1.0201)
    assert net.numbers(2) == [1]
    net.hub.release(2.0)
    assert net.numbers(2) == [1, 2]
    assert net.hub.next_s == float("inf")
    assert net.hub.counts()[1, 2].numbers() == [2, 0, 2, 0, 0]


def test_lifting_a_rule_lets_those_that_wait_go_first(net: Net) -> None:
    net.hub.rule(1, 2, Rule(delay_ms=1_000, jitter_ms=500))
    for number in range(10):
        net.number(1, 2, number, number / 1_000)
    net.hub.clear()
    net.number(1, 2, 10, 0.02)
    assert net.numbers(2) == list(range(11))
    assert net.hub.next_s == float("inf")


def test_a_partition_takes_what_is_on_the_way_too(net: Net) -> None:
    net.hub.rule(1, 2, Rule(delay_ms=20))
    net.number(1, 2, 1, 0.0)
    net.number(3, 2, 2, 0.0)
    net.hub.rule(1, 2, Rule(drop=True))
    net.hub.release(1.0)
    assert net.numbers(2) == [2]
    assert net.hub.counts()[1, 2].numbers() == [0, 1, 1, 0, 0]


def test_a_packet_that_its_host_does_not_take_is_dropped(net: Net) -> None:
    net.has_room = False
    net.say(1, 2, 1)
    assert net.hub.counts()[1, 2].numbers() == [0, 1, 0, 0, 0]


def test_the_count_of_reordered_packets_is_that_of_overtaken_ones(net: Net) -> None:
    net.hub.rule(1, 2, Rule(reorder=0.3))
    for number in range(200):
        net.number(1, 2, number, number * HELD_S / 5)
    net.hub.release(1e9)
    came = net.numbers(2)
    assert sorted(came) == list(range(200))
    overtaken = sum(number < max(came[:at]) for at, number in enumerate(came) if at)
    assert net.hub.counts()[1, 2].reordered == overtaken > 20


def test_a_packet_that_is_held_back_with_none_behind_it_is_not_counted_as_reordered(
    net: Net,
) -> None:
    net.hub.rule(1, 2, Rule(reorder=1.0))
    net.number(1, 2, 1, 0.0)
    net.hub.release(1.0)
    assert net.hub.counts()[1, 2].numbers() == [1, 0, 1, 0, 0]


RULES = (
    Rule(),
    Rule(drop=True),
    Rule(refuse=True),
    Rule(delay_ms=5, jitter_ms=5),
    Rule(jitter_ms=9),
    Rule(loss=0.3, delay_ms=1),
    Rule(bytes_per_s=20_000),
)
"""None of which reorders."""


@pytest.mark.parametrize("seed", range(20))
def test_whatever_the_rules_order_is_kept_and_every_packet_is_accounted_for(seed: int) -> None:
    net, rng = Net(seed), random.Random(seed)
    now_s = 0.0
    for number in range(1_000):
        now_s += rng.random() / 1_000
        if rng.random() < 0.02:
            net.hub.rule(1, 2, rng.choice(RULES))
        if rng.random() < 0.5:
            net.hub.release(now_s)
        net.number(1, 2, number, now_s)
    net.hub.clear()
    came, counts = net.numbers(2), net.hub.counts()[1, 2]
    assert came == sorted(came)
    assert len(came) == counts.passed > 0
    assert counts.passed + counts.dropped == 1_000
    assert counts.reordered == 0


# -- connections ----------------------------------------------------------------------------------


def test_a_reset_tells_both_sides_with_the_numbers_that_they_expect(net: Net) -> None:
    net.has_connection()
    assert net.hub.reset(2, 1) == 1
    assert [each.seq for each in net.resets(1)] == [511]
    assert [each.seq for each in net.resets(2)] == [111]
    assert net.hub.counts()[1, 2].reset == net.hub.counts()[2, 1].reset == 1


def test_a_side_that_has_not_acked_yet_is_told_with_both_numbers(net: Net) -> None:
    net.has_connection()
    net.say(1, 2, 111, 511, size=40)  # host 2 has it, and has not said so
    net.hub.reset(1, 2)
    assert {each.seq for each in net.resets(2)} == {111, 151}


def test_what_comes_of_an_ended_connection_is_answered_with_what_its_sender_expects(
    net: Net,
) -> None:
    net.has_connection()
    net.hub.reset(1, 2)
    net.came = {1: [], 2: [], 3: []}
    net.say(2, 1, 511, 131)  # its number was another one: it says which
    assert net.came[1] == []
    (answer,) = net.resets(2)
    assert answer.seq == 131


def test_ended_is_ended_until_the_same_ports_begin_anew(net: Net) -> None:
    net.has_connection()
    assert (net.hub.reset(1, 2), net.hub.reset(1, 2)) == (1, 0)
    net.has_connection()
    net.say(1, 2, 111, 511, size=1)
    assert len(net.came[2]) == 1
    assert net.hub.reset(1, 2) == 1


def test_one_that_only_begins_is_refused_by_its_ack(net: Net) -> None:
    net.hub.rule(1, 2, Rule(drop=True))
    net.say(1, 2, 100, flags=SYN)
    net.hub.reset(1, 2)
    assert [(each.seq, each.ack) for each in net.resets(1)] == [(0, 101)]


def test_other_pairs_and_those_that_are_over_are_left_alone(net: Net) -> None:
    net.has_connection()
    assert net.hub.reset(1, 3) == 0
    net.say(1, 2, 111, 511, flags=FIN | ACK)
    net.say(2, 1, 511, 112, flags=FIN | ACK)
    assert net.hub.reset(1, 2) == 0
    net.has_connection()
    net.say(1, 2, 111, flags=RST)
    assert net.hub.reset(1, 2) == 0


def test_those_that_were_not_heard_of_for_longest_are_forgotten() -> None:
    known = Connections(most=2)
    for port in (1, 2, 1, 3):
        known.saw(1, 2, Segment(port, 80, 1, 1, ACK, 0))
    assert len(known) == 2
    assert [key[1] for key, _ in known.end(1, 2)] == [1, 3]
