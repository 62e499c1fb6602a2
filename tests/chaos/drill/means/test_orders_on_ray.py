"""Messages go astray in a real job, and its output stays whole and goes on.

Run by `make test-cluster`. Orders reach every process of the job from outside; each has had an
effect, or the test has proved nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

import gapless as gl
from gapless.chaos.drill.means.orders import Order, Orders
from gapless.chaos.judge.recording import Recording
from tests.actors.rays import Feed, end, follow, goes_on, judged, started, talkers, wait_whole

pytestmark = [pytest.mark.ray, pytest.mark.cluster]

HOLDS_S = 3.0
"""How long each order holds."""
STEP_MS = 1_000
"""Of stream time, by which the output goes on while it does, and afterwards: 0.2 s of the feed."""


@dataclass
class Struck:
    """A job, and what strikes it."""

    job: gl.Job
    orders: Orders
    recording: Recording

    def holds(self, order: Order) -> int:
        """How often an order had an effect in its time. The output goes on in it, and behind it."""
        number = self.orders.give(order)
        before = self.recording.stable
        threading.Event().wait(HOLDS_S)
        self.orders.take_back(number)
        assert self.recording.stable - before > STEP_MS
        goes_on(self.recording, STEP_MS)
        return self.orders.struck(number)


@pytest.fixture(scope="module")
def struck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Struck]:
    where = tmp_path_factory.mktemp("struck")
    orders = Orders(where / "orders")
    with started(runtime_env=orders.runtime_env()), Feed(where / "flows") as feed:
        job = gl.launch(talkers(), journal=feed.path, dir=where / "talkers", replicas=2)
        wait_whole(job)
        recording = follow(job, start="earliest")
        yield Struck(job, orders, recording)
        feed.stop()
        end(job)
        assert judged(job.dir, [recording]).settled_rows > 1_000


@pytest.mark.parametrize(
    "order",
    [
        Order("lose", "m*", "frames", 0.2),
        Order("double", "m*", "frames", 0.2),
        Order("reorder", "m*", "frames", 0.2),
        Order("delay", "m*", "frames", 0.2, ms=30),
        Order("corrupt", "m*", "frames", 0.2),
        Order("lose", "r*", "feedback", 0.2),
        Order("double", "r*", "feedback", 0.2),
        Order("delay", "r*", "feedback", ms=300),
        Order("corrupt", "*", "all", 0.2),
        Order("slow disk", "*", ms=100),
        Order("clock", "*", ms=-3_600_000),
    ],
    ids=lambda order: f"{order.what} {order.messages}",
)
def test_the_output_goes_on_whatever_happens_to_messages(struck: Struck, order: Order) -> None:
    assert struck.holds(order) > 0


def test_what_is_damaged_costs_no_life_and_is_told(struck: Struck) -> None:
    before = struck.job.status().hosts.keys()
    assert struck.holds(Order("corrupt", "*", "all", 0.2)) > 0
    after = struck.job.status()
    assert after.hosts.keys() == before
    told = [alarm for alarm in after.alarms if "damaged on the way" in alarm.what]
    assert 1 <= len(told) <= 4 * len(after.hosts) + 4


def test_frames_of_a_life_that_is_over_are_not_taken(struck: Struck) -> None:
    number = struck.orders.give(Order("stale", "m*"))
    goes_on(struck.recording, STEP_MS)
    struck.job.kill("r0.1")
    goes_on(struck.recording, STEP_MS)
    wait_whole(struck.job)
    goes_on(struck.recording, STEP_MS)
    struck.orders.take_back(number)
    assert struck.orders.struck(number) > 0
