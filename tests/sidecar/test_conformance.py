"""The examination of clients: ours passes, so does one written from the manual, and one that breaks
a rule is told its number.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from gapless.protocol.errors import Fenced
from gapless.protocol.frame import Frame
from gapless.sidecar.client.producer import Producer
from gapless.sidecar.conformance import workload
from gapless.sidecar.conformance.peer import FENCED, SCENARIOS, Examination, Peer
from gapless.sidecar.conformance.rules import RULES
from tests.sidecar.conforming import BROKEN, Conforming, TellsNothingAgain
from tests.sidecar.helpers import HOST, PATIENCE_S, own_host

MANUAL = (Path(__file__).parents[2] / "docs" / "sidecar.md").read_text()
ALL = [scenario.name for scenario in (*SCENARIOS, FENCED)]


def examined(client: Callable[[str], None], *, again_s: float = PATIENCE_S) -> Examination:
    """What comes of the examination of a client, which is given the address."""

    async def run() -> Examination:
        peer = Peer(quiet_s=0.03, again_s=again_s, fenced_s=0.3)
        port = await peer.listen(f"{HOST}:0")
        thread = threading.Thread(target=client, args=(f"{HOST}:{port}",), daemon=True)
        thread.start()
        verdict = await asyncio.wait_for(peer.examine(), 60)
        await asyncio.to_thread(thread.join, PATIENCE_S)
        assert not thread.is_alive()
        return verdict

    return asyncio.run(run())


def ours(address: str) -> None:
    """Our own client, as a program uses it."""
    for stream in (workload.STREAM, workload.FENCED_STREAM):
        producer = Producer(address, stream, "ours", workload.SCHEMA)
        try:
            for t in range(1, workload.STEPS + 1):
                producer.push(Frame.from_elements(workload.SCHEMA, workload.step(t)))
                if t % workload.ROUND == 0:
                    assert producer.flush(PATIENCE_S)
            producer.push(Frame.from_elements(workload.SCHEMA, workload.end()))
            producer.close(PATIENCE_S)
        except Fenced:
            assert stream == workload.FENCED_STREAM
            producer.abandon()


def test_our_own_client_keeps_all_rules() -> None:
    verdict = examined(ours)
    assert verdict.breach is None, verdict
    assert verdict.passed == ALL


def test_a_client_that_was_written_from_the_manual_keeps_all_rules() -> None:
    verdict = examined(lambda address: Conforming(address).run())
    assert verdict.breach is None, verdict
    assert verdict.passed == ALL


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_who_breaks_a_rule_is_told_which(kind: type[Conforming]) -> None:
    verdict = examined(lambda address: kind(address).run(), again_s=2.0)
    assert verdict.breach is not None
    assert verdict.breach.rule == BROKEN[kind], verdict.breach
    assert verdict.during in ALL


def test_no_client_of_another_process_comes_to_this_one() -> None:
    processes = [1, 255, 256, 65_535, 65_536, 4_194_304]
    hosts = [ipaddress.ip_address(own_host(process)) for process in processes]
    assert all(host.is_loopback for host in hosts)
    assert len(set(hosts)) == len(processes)


def test_every_rule_has_a_client_that_breaks_it_and_is_in_the_manual() -> None:
    rules = MANUAL.partition("\nThe rules of a producer.")[2].partition("\n#")[0]
    numbers = {int(number) for number in re.findall(r"^(\d+)\. ", rules, re.MULTILINE)}
    assert numbers == set(RULES) - {0}
    assert {*BROKEN.values()} == numbers
    assert TellsNothingAgain in BROKEN
