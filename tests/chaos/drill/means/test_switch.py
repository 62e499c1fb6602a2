"""A switch breaks a real network as its rules say, proves it, and leaves nothing behind."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from gapless.chaos.drill.means.rules import Rule
from gapless.chaos.drill.means.switch import HOSTS_MAX, NetworkSwitch, why_not
from gapless.protocol.errors import JobError, Misuse

WAIT_S = 20.0
SHORT_S = 0.6
"""After so long a test takes it that nothing comes."""
AT_ONCE_S = 1.0
ESTABLISHED, CLOSED = 1, 7  # TCP_INFO

needs_it = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

PEER = Path(__file__).with_name("peer.py")
OWNER = """
import sys
from gapless.chaos.drill.means.switch import NetworkSwitch
with NetworkSwitch(3) as switch:
    print(switch.namespace(2), switch.address(1), flush=True)
    try:
        sys.stdin.read()
    except KeyboardInterrupt:
        pass
"""


class Host:
    """A program on a host, as a test talks to it."""

    def __init__(self, switch: NetworkSwitch, number: int) -> None:
        self.number = number
        self.address = switch.address(number)
        self._process = subprocess.Popen(
            [sys.executable, str(PEER), switch.namespace(number) or ""],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.ports = self.do("listen")

    def begin(self, what: str, **settings: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": what, **settings}) + "\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    def do(self, what: str, **settings: Any) -> dict[str, Any]:
        self.begin(what, **settings)
        return self.answer()

    def connect(self, to: Host, **settings: Any) -> dict[str, Any]:
        return self.do("connect", host=to.address, port=to.ports["tcp"], **settings)

    def numbers_to(self, to: Host, count: int, pause_s: float) -> list[int]:
        """Sends datagrams; the numbers that have arrived, in their order."""
        to.begin("numbers")
        self.do("send_numbers", host=to.address, port=to.ports["udp"], count=count, pause_s=pause_s)
        numbers: list[int] = to.answer()["numbers"]
        return numbers

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


class Net:
    """A switch with a program on each of its first three hosts."""

    def __init__(self, switch: NetworkSwitch, hosts: list[Host]) -> None:
        self.switch = switch
        self.h1, self.h2, self.h3 = hosts

    def both(self, a: Host, b: Host, rule: Rule) -> None:
        self.switch.rule(a.number, b.number, rule)
        self.switch.rule(b.number, a.number, rule)


@pytest.fixture(scope="module")
def opened() -> Iterator[Net]:
    with NetworkSwitch(3, seed=1) as switch, ExitStack() as stack:
        hosts = [Host(switch, number) for number in (1, 2, 3)]
        for host in hosts:
            stack.callback(host.end)
        yield Net(switch, hosts)


@pytest.fixture
def net(opened: Net) -> Iterator[Net]:
    yield opened
    opened.switch.clear()


def eventually(holds: Callable[[], bool], what: str) -> None:
    until, pause = time.monotonic() + WAIT_S, threading.Event()
    while not holds():
        assert time.monotonic() < until, what
        pause.wait(0.02)


@needs_it
def test_without_rules_all_hosts_reach_each_other_and_themselves(net: Net) -> None:
    hosts = (net.h1, net.h2, net.h3)
    for one in hosts:
        for other in hosts:
            assert "error" not in one.connect(other)
            assert one.do("echo", size=1 << 20)["right"]
    counts = net.switch.counts()
    assert all(each.passed > 16 for each in counts.values())
    assert all(each.dropped == each.delayed == each.reset == 0 for each in counts.values())


@needs_it
def test_a_silent_partition_hangs_and_what_was_sent_arrives_when_it_heals(net: Net) -> None:
    net.h2.connect(net.h3)
    net.both(net.h2, net.h3, Rule(drop=True))
    assert net.h2.do("echo", size=10, timeout_s=SHORT_S)["error"] == "TimeoutError"
    assert net.h1.connect(net.h3).get("error") is None, "only one pair is parted"
    assert net.switch.counts()[2, 3].dropped > 0
    net.switch.clear()
    assert "error" not in net.h2.do("waits"), "the connection has survived"


@needs_it
def test_a_new_connection_into_a_partition_hangs(net: Net) -> None:
    net.switch.rule(2, 3, Rule(drop=True))
    assert net.h2.connect(net.h3, timeout_s=SHORT_S)["error"] == "TimeoutError"


@needs_it
def test_a_partition_of_one_way_leaves_the_other(net: Net) -> None:
    net.switch.rule(2, 3, Rule(drop=True))
    assert net.h2.numbers_to(net.h3, 5, 0.0) == []
    assert net.h3.numbers_to(net.h2, 5, 0.0) == [0, 1, 2, 3, 4]


@needs_it
def test_a_refusing_pair_fails_fast_for_connections_new_and_old(net: Net) -> None:
    net.h2.connect(net.h3)
    net.both(net.h2, net.h3, Rule(refuse=True))
    old = net.h2.do("echo", size=10)
    assert (old["error"], old["took_s"] < AT_ONCE_S) == ("ConnectionResetError", True)
    new = net.h2.connect(net.h3)
    assert (new["error"], new["took_s"] < AT_ONCE_S) == ("ConnectionRefusedError", True)
    assert net.switch.counts()[2, 3].reset >= 2


@needs_it
def test_a_delay_is_in_each_round_trip(net: Net) -> None:
    net.h2.connect(net.h3)
    net.both(net.h2, net.h3, Rule(delay_ms=40))
    took_s = [net.h2.do("echo", size=10)["took_s"] for _ in range(3)]
    assert all(0.080 <= each < 0.080 + AT_ONCE_S for each in took_s)
    assert net.switch.counts()[2, 3].delayed >= 3


@needs_it
def test_jitter_keeps_the_order(net: Net) -> None:
    net.switch.rule(2, 3, Rule(jitter_ms=20))
    assert net.h2.numbers_to(net.h3, 100, 0.001) == list(range(100))
    assert net.switch.counts()[2, 3].delayed >= 100


@needs_it
def test_reordering_loses_nothing_and_says_how_much_it_did(net: Net) -> None:
    before = net.switch.counts()[2, 3].reordered
    net.switch.rule(2, 3, Rule(reorder=0.2))
    numbers = net.h2.numbers_to(net.h3, 200, 0.001)
    assert sorted(numbers) == list(range(200))
    overtaken = sum(number < max(numbers[:at]) for at, number in enumerate(numbers) if at)
    assert overtaken > 10
    assert net.switch.counts()[2, 3].reordered - before == overtaken


@needs_it
def test_tcp_delivers_over_a_lossy_pair(net: Net) -> None:
    net.h2.connect(net.h3)
    before = net.switch.counts()[2, 3].dropped
    net.both(net.h2, net.h3, Rule(loss=0.05))
    for _ in range(40):
        assert net.h2.do("echo", size=20_000, timeout_s=WAIT_S)["right"]
    assert net.switch.counts()[2, 3].dropped > before


@needs_it
def test_bandwidth_is_what_the_rule_says(net: Net) -> None:
    net.h2.connect(net.h3)
    net.both(net.h2, net.h3, Rule(bytes_per_s=2e6))
    took_s = net.h2.do("echo", size=2_000_000, timeout_s=WAIT_S)["took_s"]
    assert 0.85 < took_s < 5.0, "a second, as both ways go at once, except for the bucket"


@needs_it
def test_a_reset_ends_both_sides_of_idle_connections(net: Net) -> None:
    net.h2.connect(net.h3)
    net.h2.do("echo", size=100_000)
    net.h1.connect(net.h3)
    net.h2.begin("waits")
    assert net.switch.reset(3, 2) >= 1
    ended = net.h2.answer()
    assert (ended["error"], ended["took_s"] < AT_ONCE_S) == ("ConnectionResetError", True)
    assert net.h1.do("echo", size=10)["right"], "of this pair alone"
    assert net.h3.do("served")["states"].count(CLOSED) >= 1
    assert net.switch.reset(3, 2) == 0, "there is none any more"
    assert "error" not in net.h2.connect(net.h3)
    assert net.h2.do("echo", size=10)["right"]


@needs_it
def test_a_reset_ends_a_busy_connection_within_a_partition_of_one_way_too(net: Net) -> None:
    net.h2.connect(net.h3)
    net.switch.rule(3, 2, Rule(drop=True))
    net.h2.begin("echo", size=5_000_000)
    assert net.switch.reset(2, 3) >= 1
    ended = net.h2.answer()
    assert ended["took_s"] < AT_ONCE_S
    assert ended["error"] in {"ConnectionResetError", "ConnectionAbortedError"}


# -- its life -------------------------------------------------------------------------------------


@needs_it
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_of_a_switch_whose_owner_is_ended(number: signal.Signals) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdin is not None
    assert owner.stdout is not None
    with owner.stdin, owner.stdout:
        namespace, address = owner.stdout.readline().split()
        pid = int(namespace.split("/")[2])
        assert address in addresses()
        owner.send_signal(number)
        owner.wait()
    eventually(lambda: not is_alive(pid), "its process is left")
    eventually(lambda: address not in addresses(), "its device is left")


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def addresses() -> set[str]:
    devices = psutil.net_if_addrs().values()
    return {each.address for device in devices for each in device if each.family == socket.AF_INET}


@needs_it
def test_two_switches_have_networks_of_their_own() -> None:
    with NetworkSwitch(2) as one, NetworkSwitch(2) as other:
        assert one.address(2) != other.address(2)


@needs_it
def test_a_switch_whose_process_was_killed_says_so() -> None:
    with NetworkSwitch(2) as switch:
        namespace = switch.namespace(2)
        assert namespace is not None
        psutil.Process(int(namespace.split("/")[2])).kill()
        with pytest.raises(JobError, match="has ended"):
            switch.counts()


@needs_it
def test_who_asks_for_what_is_not_there_is_told_what_is(net: Net) -> None:
    with pytest.raises(Misuse, match="there are 1 to 3"):
        net.switch.address(4)
    with pytest.raises(Misuse, match="to itself"):
        net.switch.rule(2, 2, Rule(drop=True))
    with pytest.raises(Misuse, match="open already"), net.switch:
        pass


def test_a_switch_that_is_not_open_is_no_network() -> None:
    with pytest.raises(Misuse, match=f"from 2 to {HOSTS_MAX}"):
        NetworkSwitch(1)
    with pytest.raises(Misuse, match="not open"):
        NetworkSwitch(2).address(1)


def test_a_machine_without_the_means_says_what_to_do() -> None:
    reason = why_not()
    assert reason is None or any(word in reason for word in ("sudo", "modprobe", "here", "run it"))
