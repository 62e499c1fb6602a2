"""A stage: where a scenario plays. A cluster of its own, rows that come, a job, and an observer.

    with Stage(scenario, faults) as stage:      janitor, switch, nodes, rows, job, recordings
        stage.wait_whole(30)                    every replica and merger runs and takes part
        fault.inject(stage)                     faults find here what they break
        stage.end_rows(); stage.wait_end(60)    the stream ends, and the output with it
    stage.recordings                            what subscribers were handed

Everything is this run's own: nothing of the machine is shared but its disk and its processors.
Whatever ends the run, all of it is taken away: processes by their keepers, what is in the kernel by
the janitor.
"""

from __future__ import annotations

import logging
import random
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Any, Literal, Self

import ray
from ray.exceptions import RayError

from gapless.actors import cluster
from gapless.actors.handle import Job, attach
from gapless.actors.launch import resume
from gapless.actors.local_nodes import LocalNodes
from gapless.actors.views import JobView
from gapless.chaos.drill.faults.fault import Fault
from gapless.chaos.drill.feeder import Feeder
from gapless.chaos.drill.launcher import (
    JOB,
    end_driver,
    launch_job,
    start_driver,
    wait_launched,
    what_to_launch,
)
from gapless.chaos.drill.means.builds import planted_build
from gapless.chaos.drill.means.janitor import Janitor
from gapless.chaos.drill.means.orders import Orders
from gapless.chaos.drill.means.switch import NetworkSwitch
from gapless.chaos.drill.scenario import Scenario
from gapless.chaos.drill.targets import Targets
from gapless.chaos.drill.workloads import REAL_WORKLOADS, RealWorkload
from gapless.chaos.judge.record import Record
from gapless.chaos.judge.recording import Output, Recording
from gapless.engine.plan import Plan
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import GaplessError, JobError, Misuse

LOOK_S = 0.05
"""Between two looks at a job that is waited for."""
BEGUN_S = 30.0
"""How long a new subscription may take for its first frame."""
STOP_S = 60.0
"""How long the job may take to stop at the end."""
HEARD_S = 1.5
"""How long a cluster may take to say of a node, which is back, that it was taken for dead."""
Way = Literal["changes", "final"]


class Stage:
    """Where one scenario plays. A context, once."""

    def __init__(
        self,
        scenario: Scenario,
        faults: Sequence[Fault] = (),
        *,
        workload: RealWorkload | None = None,
        broken: str | None = None,
        code: Path | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """The scenario was checked. `faults` are asked for their `setup`. `workload`: instead of
        the one that the scenario names. `broken`: a build of chaos/planted/builds.py, which is
        to be found out. `code`: of the query's functions. `say` is told how it goes.
        """
        self.scenario = scenario
        self.record = Record()
        self.targets = Targets(self)
        """Whom faults may hit."""
        self.rng = random.Random(f"stage {scenario.seed}")
        self.say = say
        self._faults = faults
        self._code = code
        self._broken = broken
        self._workload = workload if workload is not None else REAL_WORKLOADS[scenario.workload]
        self._stack = ExitStack()
        self.recordings: list[Recording] = []
        """Of all that subscribe, also those that faults have added."""
        self.ground: Path
        """A folder of this run: journal, job, whatever faults need."""
        self.janitor: Janitor
        self.nodes: LocalNodes
        self.feeder: Feeder
        self.job: Job
        self._switch: NetworkSwitch | None = None
        self._orders: Orders | None = None
        self._driver: subprocess.Popen[str] | None = None
        self._is_abandoned = False
        self._cluster_stays = threading.Lock()

    # -- what there is ------------------------------------------------------------------------

    @property
    def job_dir(self) -> Path:
        """The job's directory."""
        return self.ground / JOB

    @property
    def switch(self) -> NetworkSwitch:
        """Between the nodes; only of a stage with a network of its own."""
        if self._switch is None:
            raise Misuse("this stage has no network of its own: the fault's `parts` do not say so")
        return self._switch

    @property
    def orders(self) -> Orders:
        """To the hooks inside processes; only of a stage that has them."""
        if self._orders is None:
            raise Misuse("this stage has no hooks inside: the fault's `parts` do not say so")
        return self._orders

    @property
    def driver(self) -> subprocess.Popen[str]:
        """The program that has launched the job; only of a stage with one."""
        if self._driver is None:
            raise Misuse("this stage's job was launched by itself: no fault asked for a driver")
        return self._driver

    def view(self) -> JobView:
        """The job as its root sees it, now. For any thread; waits while another cluster starts."""
        with self._cluster_stays:
            return self.job.status()

    # -- beginning ----------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Starts all of it; returns once the job answers. Where that fails nothing is left."""
        try:
            self._begin()
        except BaseException as e:
            self._is_abandoned = isinstance(e, KeyboardInterrupt)
            self._stack.close()
            raise
        return self

    def _begin(self) -> None:
        self.janitor = self._stack.enter_context(Janitor())
        self.ground = Path(tempfile.gettempdir()) / f"gapless-chaos-{token_hex(8)}"
        self.janitor.promise("remove", str(self.ground))
        self.ground.mkdir(mode=0o700)
        parts = self.scenario.parts()
        if "network" in parts:
            self._switch = self._stack.enter_context(NetworkSwitch(seed=self.scenario.seed))
        if "inside" in parts or self._broken is not None:
            (self.ground / "orders").mkdir()
            self._orders = Orders(self.ground / "orders")
        if self._broken is not None:  # subscribers are machines of this process
            self._stack.enter_context(planted_build(self._broken))
        self._start_nodes()
        self._stack.callback(self._end_cluster)
        self.feeder = self._stack.enter_context(
            Feeder(self._workload, self.ground, self.scenario.rate)
        )
        self._stack.callback(self._stop_recordings)
        for fault in self._faults:
            fault.setup(self)
        self.say("launching the job")
        self.job = self._launch_by_driver() if "driver" in parts else self._launch()
        self._stack.callback(self._stop_job)
        self.feeder.begin()
        self.follow("changes", "changes")
        self.follow("final", "final")

    def _start_nodes(self) -> None:
        count = self.scenario.nodes
        self.say(f"starting a cluster of {count} node{'s' if count > 1 else ''}")
        self.nodes = LocalNodes(
            count, network=self._switch, persistent="persistence" in self.scenario.parts()
        )
        settings: dict[str, Any] = {}
        if self._orders is not None:
            settings["runtime_env"] = self._orders.runtime_env(self._broken)
        logging.getLogger("ray").setLevel(logging.ERROR)  # of what dies, the record tells
        self.nodes.__enter__()
        try:
            cluster.connect(self.nodes.address, **self.nodes.driver_settings, **settings)
        except BaseException:
            self._end_cluster()
            raise

    def _launch(self) -> Job:
        return launch_job(
            self.scenario,
            self._plans(),
            self.feeder.paths,
            self.job_dir,
            self.nodes.address,
            self._code,
        )

    def _plans(self) -> dict[str, Plan]:
        plans = self._workload.plans
        return {name: plans[name] for name in self.scenario.plans or plans}

    def _launch_by_driver(self) -> Job:
        """Has a program of its own launch the job, and stay."""
        self._driver = start_driver(
            what_to_launch(
                self.scenario,
                self._workload.name,
                self._plans(),
                self.feeder.paths,
                self.job_dir,
                self.nodes.address,
                self.nodes.driver_settings,
            )
        )
        self._stack.callback(end_driver, self._driver)
        wait_launched(self._driver)
        return attach(JOB, address=None)

    # -- looking on ---------------------------------------------------------------------------

    def follow(
        self,
        name: str,
        deliver: Way = "changes",
        *,
        mergers: Sequence[int] | None = None,
        through: Callable[[Output], Output] = lambda output: output,
    ) -> Recording:
        """Records a new subscription from the start; returns once it has begun. `through` may put
        something between: a program that is slow, say.
        """
        subscription = self.job.subscribe(deliver, "earliest", mergers=mergers)
        recording = Recording(through(subscription), name, deliver=deliver, since=BEGIN)
        self.recordings.append(recording)
        if not recording.wait_for(lambda: bool(recording.runs[-1].arrivals), BEGUN_S):
            raise JobError(f"subscriber {name} has got nothing after {BEGUN_S:g} s")
        return recording

    def wait_whole(self, timeout_s: float, without: frozenset[int] = frozenset()) -> float | None:
        """Waits until all of the job runs and takes part; seconds, None where it does not. A job
        that still counts on a process of `without` has not seen yet that it is gone.
        """
        began_s = time.monotonic()
        while time.monotonic() - began_s < timeout_s:
            try:
                view = self.view()
                pids = {about.pid for about in (view.root, *view.hosts.values())}
                if view.is_whole and not pids & without:
                    return time.monotonic() - began_s
            except GaplessError as e:  # a root that is away says nothing for a while
                self.record.see("note", "root", text=str(e))
            time.sleep(LOOK_S)
        return None

    def goes_on(self, timeout_s: float) -> bool:
        """Waits until what the sources promise now is promised to every subscriber."""
        wanted, until_s = self.feeder.stable, time.monotonic() + timeout_s
        return all(
            recording.wait_for_stable(wanted, max(0.0, until_s - time.monotonic()))
            for recording in self.recordings
        )

    def renew(self, node: str) -> None:
        """Once a node is within reach again: where the cluster has taken it for dead, what is left
        of it is ended, and another one comes.
        """
        id = self.nodes.ids.get(node)
        if id is None or self._is_abandoned:
            return
        until_s = time.monotonic() + HEARD_S
        while time.monotonic() < until_s:  # the verdict may still be on its way
            if id not in _alive():
                self.nodes.kill(node)
                self.nodes.add()
                return
            time.sleep(LOOK_S)

    # -- a cluster that is lost ---------------------------------------------------------------

    def resume(self) -> None:
        """Gives the cluster up, starts another, and goes on from the job's directory; subscribers
        resume with their tokens.
        """
        self.say("the cluster is lost: resuming on another")
        for recording in self.recordings:
            recording.abandon()
        with self._cluster_stays:
            self._end_cluster()
            self._start_nodes()
            self.job = resume(self.job_dir, address=self.nodes.address)
        for recording in self.recordings:
            token = recording.token
            again = self.job.subscribe(recording.deliver, token or "earliest")
            recording.go_on(again)

    # -- ending -------------------------------------------------------------------------------

    def end_rows(self) -> None:
        """No rows follow. Raises what has kept rows from coming."""
        self.feeder.end()

    def wait_end(self, timeout_s: float) -> bool:
        """Drains the job, and waits until every subscriber has got the last of it."""
        until_s = time.monotonic() + timeout_s
        self.job.stop(drain=True, timeout_s=timeout_s)
        return all(
            recording.wait_for_end(max(0.0, until_s - time.monotonic()))
            for recording in self.recordings
        )

    def stop_recordings(self) -> None:
        """Before they are judged. Raises what a subscription has raised."""
        for recording in self.recordings:
            recording.stop()

    def _stop_recordings(self) -> None:
        for recording in self.recordings:
            try:
                recording.stop()
            except GaplessError as e:
                self.record.see("note", recording.name, text=str(e))

    def abandon(self) -> None:
        """Somebody has interrupted the run: the job ends with its cluster, nobody waits for it, and
        no node is replaced any more.
        """
        self._is_abandoned = True

    def _stop_job(self) -> None:
        try:
            if not self._is_abandoned and self.job.is_running:
                self.job.stop(drain=False, timeout_s=STOP_S)
        except (GaplessError, RayError) as e:  # its processes end with the nodes
            self.record.see("note", "job", text=f"it cannot be stopped: {e}")

    def _end_cluster(self) -> None:
        try:
            cluster.disconnect()
        finally:
            self.nodes.close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if isinstance(error, KeyboardInterrupt):
            self.abandon()
        self.say("ending")
        self._stack.close()


def _alive() -> set[str]:
    """The nodes that the cluster takes for alive."""
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]  # Ray has no types for it
    return {node["NodeID"] for node in nodes if node["Alive"]}
