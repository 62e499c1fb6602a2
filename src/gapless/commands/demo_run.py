"""The run of `gapless demo`: three nodes, three replicas, two mergers; and what is done to them.

    source   prepares ---|  feeds, live ------------------------------------------|  ends
    nodes    n1 n2 n3 up | the job runs     X r0.1     X m0.0     X n3     + n4    | drains
    subscriber           | reads from the start, and notes when each frame came    | is judged

After each kill it waits until the job is whole again: every replica runs and can carry
the output, every merger runs and has all replicas as its inputs. Whatever ends the run, an error or
a person, everything that it has started is ended.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gapless.commands.demo_outcome import Kill, Outcome
from gapless.commands.demo_screen import Progress, Screen
from gapless.commands.demo_source import READY_S, Source, Spec, flows
from gapless.protocol.errors import GaplessError, JobError, Misuse

if TYPE_CHECKING:
    from gapless.actors.handle import Job
    from gapless.actors.local_nodes import LocalNodes
    from gapless.actors.views import JobView
    from gapless.chaos.judge.judgement import Judgement
    from gapless.chaos.judge.recording import Recording
    from gapless.failover.job.state import SlotState
    from gapless.failover.messages import Life

NODES, REPLICAS, MERGERS = 3, 3, 2
LOOK_S = 0.1
"""Between two looks at the job."""
CATCH_UP_S = 120.0
"""How long the replicas may take for the prepared events."""
UNDISTURBED_S = 6.0
"""Of the live stream, before anything is killed: what its pauses are held against."""
CALM_S = 3.0
"""Between the job being whole and the next kill."""
BACK_S_MAX = 30.0
"""How long the job may take to be whole again; later than that is a problem."""
DRAIN_S = 120.0
"""How long the output may take to come to its end."""
SLIDE_MS = 1_000
PROBLEMS_MAX = 20
"""Sentences of the judges that are printed."""


@dataclass(frozen=True)
class Options:
    """What a person chooses."""

    rate: int = 50_000
    seed: int = 0
    keep: Path | None = None


def run(options: Options, screen: Screen) -> Outcome:
    """The demonstration. Raises `GaplessError` where it cannot run; leaves nothing running."""
    with ExitStack() as stack:
        folder = _folder(options, stack)
        return _Demo(options, screen, folder, stack).run()


def _folder(options: Options, stack: ExitStack) -> Path:
    if options.keep is None:
        folder = Path(tempfile.mkdtemp(prefix="gapless-demo-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        return folder
    try:
        options.keep.mkdir(parents=True, exist_ok=True)
        is_empty = not any(options.keep.iterdir())
    except OSError as e:
        raise Misuse(f"--keep {options.keep}: {e.strerror}: name a new directory") from None
    if not is_empty:
        raise Misuse(f"--keep {options.keep}: it is not empty: name a new directory")
    return options.keep.resolve()


def is_whole(slots: Collection[SlotState], killed: Collection[Life]) -> bool:
    """Whether every slot has a life that is not one of the killed, and takes part."""
    return len(slots) == REPLICAS + MERGERS and all(
        slot.state == "running"
        and slot.life not in killed
        and (slot.qualified_ms >= 0 if slot.slot.startswith("r") else slot.inputs == REPLICAS)
        for slot in slots
    )


class _Demo:
    """One run."""

    def __init__(self, options: Options, screen: Screen, folder: Path, stack: ExitStack) -> None:
        self._options = options
        self._screen = screen
        self._folder = folder
        self._stack = stack
        self._problems: list[str] = []
        self._kills: list[Kill] = []
        self._live_s = 0.0
        self._source: Source
        self._nodes: LocalNodes
        self._job: Job
        self._recording: Recording

    def run(self) -> Outcome:
        """Everything, from the events to the verdict."""
        prepared = self._prepare()
        self._launch()
        self._catch_up(prepared)
        undisturbed_s = self._go_live()
        self._drill()
        ended_s = time.monotonic()
        events = self._drain()
        return self._outcome(events, prepared, undisturbed_s, ended_s)

    # -- the beginning ------------------------------------------------------------------------

    def _prepare(self) -> int:
        """Events in a journal, and nodes, both at once; how many events."""
        from gapless.actors.local_nodes import LocalNodes

        say = self._screen.say
        spec = Spec(str(self._folder), self._options.seed, self._options.rate)
        say("events are drawn from a seed, and prepared by embedded Spark")
        self._source = Source(spec)
        self._stack.callback(self._source.close)
        self._nodes = self._stack.enter_context(LocalNodes(NODES))
        say(f"a Ray cluster is up: {', '.join(self._nodes.names)}, on this machine")
        done = self._source.wait_for("prepared", READY_S)
        say(f"{done['rows']:,} events are in the journal, after {done['seconds']:.1f} s of Spark")
        self._prepared_stable = int(done["stable"])
        return int(done["rows"])

    def _launch(self) -> None:
        from gapless.actors.cluster import connect, disconnect
        from gapless.actors.launch import launch
        from gapless.chaos.judge.recording import Recording
        from gapless.engine.plan import Plan
        from gapless.operators.aggregates import count, sum_
        from gapless.protocol.expr import col

        query = (
            flows()
            .where(col("len") > 0)
            .window(range="10s", slide="1s")
            .group_by("src")
            .aggregate(packets=count(), bytes=sum_("len"))
        )
        self._stack.callback(disconnect)
        connect(self._nodes.address)
        self._job = launch(
            query,
            journal=self._source.spec.journal,
            dir=self._folder / "job",
            name="demo",
            replicas=REPLICAS,
            plans={"paned": Plan(query, "paned"), "wid": Plan(query, "wid")},
            mergers=MERGERS,
            address=self._nodes.address,
            checkpoint_s=5,
        )
        self._screen.say(
            f"the query runs: {REPLICAS} replicas of two plans, {MERGERS} mergers, and a subscriber"
        )
        self._recording = Recording(self._job.subscribe(start="earliest"), "the subscriber")
        self._stack.callback(self._let_go)

    def _let_go(self) -> None:
        """Ends the recording, where an error has ended the run; that one is told, and no other."""
        try:
            self._recording.stop()
        except GaplessError:
            return

    def _catch_up(self, prepared: int) -> None:
        def has() -> bool:
            return self._recording.stable >= self._prepared_stable - SLIDE_MS

        if self._wait(lambda view: has() and is_whole(view.state.slots, ()), CATCH_UP_S) is None:
            raise JobError(
                f"the replicas have not caught up with {prepared:,} events after {CATCH_UP_S:g} s"
            )

    def _go_live(self) -> float:
        """Has the source feed, and waits; the longest pause of the output meanwhile."""
        self._screen.say(
            f"the rest of the stream comes live, {self._options.rate:,} events a second"
        )
        self._source.go()
        after = self._prepared_stable + 2 * SLIDE_MS
        if self._wait(lambda _: self._recording.stable >= after, CATCH_UP_S) is None:
            raise JobError(f"no results of live events came within {CATCH_UP_S:g} s")
        self._live_s = time.monotonic()
        self._watch(UNDISTURBED_S)
        return self._recording.longest_pause_s(self._live_s, time.monotonic())

    # -- kills --------------------------------------------------------------------------------

    def _drill(self) -> None:
        self._kill_life("replica", "r0.1")
        self._kill_life("merger", "m0.0")
        self._kill_node()
        self._screen.say(f"a new node joins: {self._nodes.add()}")
        self._watch(CALM_S)

    def _kill_life(self, role: str, slot: str) -> None:
        view = self._job.status()
        lives = [life for life in view.hosts if life.slot == slot]
        node = view.nodes.get(view.hosts[max(lives)].node, "?") if lives else "?"
        self._killed(f"{role} {slot}", f"on {node}", lives, lambda: self._job.kill(slot))

    def _kill_node(self) -> None:
        """The node with the most lives, except for the head."""
        view, nodes = self._job.status(), self._nodes
        by_node = {
            name: [life for life, about in view.hosts.items() if about.node == id]
            for name, id in nodes.ids.items()
            if name != nodes.head
        }
        name = max(by_node, key=lambda each: len(by_node[each]))
        ran = sorted(life.slot for life in by_node[name])
        if view.root.node == nodes.ids[name]:
            ran.append("the job's root")
        where = f"{', '.join(ran) or 'nothing'} ran there"
        self._killed(f"node {name}", where, by_node[name], lambda: nodes.kill(name))

    def _killed(
        self, what: str, where: str, lives: Collection[Life], kill: Callable[[], None]
    ) -> None:
        """Kills, and waits until the job is whole again without those lives."""
        self._screen.say(f"KILL {what}, {where}")
        moment_s = time.monotonic()
        kill()
        back_s = self._wait(lambda view: is_whole(view.state.slots, lives), BACK_S_MAX)
        if back_s is None:
            self._problems.append(f"not whole {BACK_S_MAX:g} s after {what} was killed")
            self._screen.say(f"the job is not whole after {BACK_S_MAX:g} s")
        else:
            self._screen.say(f"full redundancy again, after {back_s:.1f} s")
        self._watch(CALM_S)
        pause_s = self._recording.pause_around_s(moment_s)
        self._kills.append(Kill(what, where, moment_s - self._live_s, back_s, pause_s))

    # -- waiting ------------------------------------------------------------------------------

    def _wait(self, until: Callable[[JobView], bool], timeout_s: float) -> float | None:
        """Waits until something holds of the job, and shows it meanwhile; how long that took."""
        began_s = time.monotonic()
        while True:
            view = self._job.status()
            took_s = time.monotonic() - began_s
            self._show(view)
            if until(view):
                return took_s
            if took_s >= timeout_s:
                return None
            time.sleep(LOOK_S)

    def _watch(self, seconds: float) -> None:
        """Lets it run."""
        self._wait(lambda _: False, seconds)

    def _show(self, view: JobView) -> None:
        if self._recording.error is not None:
            raise self._recording.error
        self._source.heard("prepared")  # raises where the source has failed
        self._screen.show(Progress(self._source.rows, self._recording.rows, view))

    # -- the end ------------------------------------------------------------------------------

    def _drain(self) -> int:
        """Ends the stream, the output and the job; how many events there were."""
        from gapless.actors.cluster import disconnect
        from gapless.protocol.elements import INF

        events = self._source.end()
        fed = self._source.heard("feeding") or {}
        if fed.get("rejected"):
            self._problems.append(f"{fed['rejected']} events were rejected by the journal")
        self._screen.say(f"the stream ends, after {events:,} events; the job is drained")
        if not self._recording.wait_for_stable(INF, DRAIN_S):
            self._problems.append(f"the output has not come to its end after {DRAIN_S:g} s")
        self._job.validate()
        view = self._job.status()
        self._problems += [f"replicas differ: {sample}" for sample in view.state.samples]
        self._job.stop(drain=True)
        self._recording.stop()
        disconnect()
        self._nodes.close()  # the verdict has both cores
        return events

    def _outcome(self, events: int, prepared: int, undisturbed_s: float, ended_s: float) -> Outcome:
        judgement = self._judge()
        recording = self._recording
        return Outcome(
            events=events,
            prepared=prepared,
            rate=self._options.rate,
            results=judgement.answer_rows,
            delivered=recording.rows,
            kills=tuple(self._kills),
            gaps=judgement.lost,
            duplicates=judgement.duplicated,
            contradictions=judgement.contradicting,
            longest_pause_s=recording.longest_pause_s(self._live_s, ended_s),
            undisturbed_pause_s=undisturbed_s,
            seconds=self._screen.seconds,
            problems=tuple(self._problems[:PROBLEMS_MAX]),
        )

    def _judge(self) -> Judgement:
        from gapless.chaos.judge.history import Verdict
        from gapless.chaos.judge.judgement import judge

        self._screen.say("the output is compared with one batch run over the whole journal")
        judgement = judge(self._folder / "job", [self._recording])
        self._problems += [str(f) for f in judgement.findings if f.verdict is Verdict.BROKEN]
        self._problems += [str(each) for each in judgement.compared if not each.is_right]
        if not judgement.settled_rows:
            self._problems.append("there is no result to judge")
        return judgement
