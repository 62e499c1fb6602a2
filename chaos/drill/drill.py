"""A drill: a scenario, played on a stage and judged.

    whole     fault  fault        heal   whole again     calm   the rows end     judges
    |-----------|------|------------|--------|------------------|---------------|------>
    0 s         at     at          +lasts     <= holds.whole_s    drained

The timeline counts from when the job was whole. After it come the faults at random: each once the
job is whole again. Then the stream ends, and every journal and every subscriber is held against the
answer (chaos/judge/judgement.py). Whatever happens, faults are healed and the stage is left; a
drill that could not be played has an outcome that says why.
"""

from __future__ import annotations

import heapq
import platform
import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from pathlib import Path

import psutil
from ray.exceptions import RayError

from gapless.chaos.drill.faults.all import FAULTS
from gapless.chaos.drill.faults.fault import CannotStrike, Fault, Hit, Planned
from gapless.chaos.drill.flatness import flatness
from gapless.chaos.drill.observer import Observer, add_output
from gapless.chaos.drill.outcome import Outcome, Requirement, Strike
from gapless.chaos.drill.scenario import Random, Scenario
from gapless.chaos.drill.stage import Stage
from gapless.chaos.drill.stall import silent_stalls
from gapless.chaos.drill.workloads import RealWorkload
from gapless.chaos.judge.history import Verdict
from gapless.chaos.judge.judgement import Judgement, judge
from gapless.chaos.judge.record import Record
from gapless.chaos.judge.recording import pauses
from gapless.failover.messages import Life
from gapless.failover.supervisor.divergence import DIFFER
from gapless.protocol.errors import GaplessError

START_S = 60.0
"""How long the job may take to be whole at the beginning."""
END_S = 120.0
"""How long the last of the output may take."""
GO_ON_S = 30.0
"""How long the output may take, once the job is whole, to where the sources are by then."""
UNLUCKY_MAX = 20
"""Faults at random, one after the other, that find nothing to break: then something is wrong."""
MS = 1_000

Say = Callable[[str], None]


@dataclass(slots=True)
class _Struck:
    """A fault that is under way, or was."""

    fault: Fault
    hit: Hit
    at_ms: int
    healed_ms: int | None = None
    is_healed: bool = False


@dataclass(slots=True)
class _Findings:
    """What is known so far."""

    held: list[Requirement] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)
    judgement: tuple[str, ...] = ()
    problem: str = ""


class Drill:
    """Plays one scenario, once."""

    def __init__(
        self,
        scenario: Scenario,
        *,
        workload: RealWorkload | None = None,
        broken: str | None = None,
        code: Path | None = None,
        say: Say = lambda _: None,
    ) -> None:
        """`workload`, `broken`, `code`, `say`: as `Stage` has them. Raises `Misuse` where the
        scenario cannot be played: before anything starts.
        """
        scenario.check(workload)
        if workload is not None:
            scenario = replace(scenario, workload=workload.name)
        self.scenario = scenario
        self._say = say
        self._planned = [
            (planned, self._fault(planned, number))
            for number, planned in enumerate(scenario.faults)
        ]
        faults = [fault for _, fault in self._planned]
        self._stage = Stage(scenario, faults, workload=workload, broken=broken, code=code, say=say)
        self._broken = broken
        self._struck: list[_Struck] = []
        self._found = _Findings()
        self._back_s: list[float] = []
        self._ended: frozenset[int] = frozenset()
        """Processes that faults have ended since the job was whole."""

    @property
    def record(self) -> Record:
        """All that was seen."""
        return self._stage.record

    def _fault(self, planned: Planned, number: int) -> Fault:
        rng = random.Random(f"{self.scenario.seed} {number} {planned.fault}")
        return FAULTS[planned.fault](planned, rng)

    def run(self) -> Outcome:
        """Plays it. Raises only what ends the program: an interrupt."""
        began, began_s = datetime.now(UTC), time.monotonic()
        try:
            with self._stage as stage, Observer(stage):
                try:
                    self._play(stage)
                except KeyboardInterrupt:
                    stage.abandon()
                    raise
                finally:
                    self._heal_all(stage)
                self._finish(stage)
        except (GaplessError, RayError, OSError, psutil.Error) as e:
            self._found.problem = f"{type(e).__name__}: {e}"
        add_output(self._stage)
        return Outcome(
            name=self.scenario.name,
            about=self.scenario.about,
            seed=self.scenario.seed,
            began=began.isoformat(timespec="seconds"),
            seconds=round(time.monotonic() - began_s, 1),
            config={**self.scenario.document(), "broken": self._broken},
            versions=versions(),
            strikes=tuple(
                Strike(s.fault.name, s.hit.target, s.at_ms, s.healed_ms, s.hit.what)
                for s in self._struck
            ),
            held=tuple(self._found.held),
            figures=self._found.figures,
            judgement=self._found.judgement,
            problem=self._found.problem,
        )

    # -- playing ------------------------------------------------------------------------------

    def _play(self, stage: Stage) -> None:
        if stage.wait_whole(START_S) is None:
            self._holds("whole at first", f"within {START_S:g} s", "no", ok=False)
            return
        stage.record.begin()
        self._say("the job is whole")
        if self._planned:
            self._play_timeline(stage)
            self._wait_whole(stage)
        if self.scenario.random is not None:
            self._play_random(stage, self.scenario.random)

    def _play_timeline(self, stage: Stage) -> None:
        began_s = time.monotonic()
        agenda: list[tuple[float, int, Callable[[], None]]] = []
        order = 0

        def then(at_s: float, do: Callable[[], None]) -> None:
            nonlocal order
            order += 1
            heapq.heappush(agenda, (at_s, order, do))

        def strike(fault: Fault) -> None:
            struck = self._strike(stage, fault)
            if fault.heals_after is not None:
                heals_s = time.monotonic() - began_s + fault.heals_after
                then(heals_s, partial(self._heal, stage, struck))

        for planned, fault in self._planned:
            then(planned.at, partial(strike, fault))
        while agenda:
            at_s, _, do = heapq.heappop(agenda)
            time.sleep(max(0.0, began_s + at_s - time.monotonic()))
            do()

    def _play_random(self, stage: Stage, drawn: Random) -> None:
        """One after the other. One that finds nothing to break gives way to the next."""
        rng = random.Random(f"faults {self.scenario.seed}")
        kinds = self.scenario.at_random()
        until_s = time.monotonic() + drawn.minutes * 60
        number = unlucky = done = 0
        while done < drawn.count or time.monotonic() < until_s:
            time.sleep(rng.uniform(*drawn.every))
            number += 1
            name = rng.choice(kinds)
            fault = FAULTS[name](
                Planned(name, 0.0), random.Random(f"{self.scenario.seed} {number}")
            )
            try:
                struck = self._strike(stage, fault)
            except (CannotStrike, psutil.NoSuchProcess) as e:  # it has just died
                unlucky += 1
                stage.record.see("note", name, text=f"finds nothing to break: {e}")
                if unlucky >= UNLUCKY_MAX:
                    raise
                continue
            done, unlucky = done + 1, 0
            if fault.heals_after is not None:
                time.sleep(fault.heals_after)
                self._heal(stage, struck)
            if not self._wait_whole(stage):
                return

    def _strike(self, stage: Stage, fault: Fault) -> _Struck:
        at_ms = stage.record.at_ms()
        hit = fault.inject(stage)
        struck = _Struck(fault, hit, at_ms)
        self._struck.append(struck)
        self._ended |= hit.ended
        stage.record.see("fault", hit.target, at_ms=at_ms, text=fault.name)
        self._say(f"{at_ms / MS:.1f} s: {fault.name}: {hit.target}: {hit.what}")
        return struck

    def _heal(self, stage: Stage, struck: _Struck) -> None:
        if struck.is_healed or struck.fault.heals_after is None:
            return
        struck.is_healed = True  # also where it fails: it is not tried twice
        struck.fault.heal(stage)
        struck.healed_ms = stage.record.at_ms()
        stage.record.see("heal", struck.hit.target, text=struck.fault.name)
        self._say(f"{struck.healed_ms / MS:.1f} s: healed: {struck.fault.name}")

    def _heal_all(self, stage: Stage) -> None:
        """One that cannot be healed keeps no other from it."""
        with ExitStack() as stack:
            for struck in self._struck:
                stack.callback(self._heal, stage, struck)

    def _wait_whole(self, stage: Stage) -> bool:
        """Whether the job is whole again, in time; what keeps it from that is noted."""
        limit_s = self.scenario.holds.whole_s
        back_s = stage.wait_whole(limit_s, without=self._ended)
        if back_s is None:
            view = stage.view()
            why = [
                f"{slot.slot} {slot.state} {slot.reason}".strip()
                for slot in view.state.slots
                if slot.state != "running" or slot.successor
            ]
            self._holds("whole again", f"within {limit_s:g} s", "; ".join(why) or "no", ok=False)
            return False
        self._back_s.append(back_s)
        self._ended = frozenset()  # a later process may have the number of one of them
        return True

    # -- judging ------------------------------------------------------------------------------

    def _finish(self, stage: Stage) -> None:
        has_struck = [why for s in self._struck if (why := s.fault.struck(stage)) is not None]
        self._holds(
            "faults strike",
            "all of them",
            "; ".join(has_struck) or f"{len(self._struck)}",
            ok=not has_struck and bool(self._struck),
        )
        time.sleep(self.scenario.calm_s)
        goes_on = stage.goes_on(GO_ON_S)
        self._holds(
            "goes on", "to where the sources are", "it does" if goes_on else "no", ok=goes_on
        )
        if self._struck:
            self._check_pauses(stage)
        self._check_valid(stage)
        stage.end_rows()
        self._say("the rows end")
        ended = stage.wait_end(END_S)
        self._holds("ends", f"within {END_S:g} s", "it does" if ended else "no", ok=ended)
        stage.stop_recordings()
        self._check_alarms(stage)
        stalls = "; ".join(silent_stalls(stage.record))
        self._holds("no silent stall", "none", stalls or "none", ok=not stalls)
        if self._back_s and not any(held.name == "whole again" for held in self._found.held):
            self._found.figures["whole_again_s"] = round(max(self._back_s), 2)
            limit_s, worst = self.scenario.holds.whole_s, max(self._back_s)
            self._holds("whole again", f"within {limit_s:g} s", f"{worst:.1f} s", ok=True)
        self._found.held += flatness(stage.record) if self.scenario.is_long else []
        self._judge(judge(stage.job_dir, stage.recordings))

    def _check_pauses(self, stage: Stage) -> None:
        recording, zero_ms = stage.recordings[0], stage.record.at_ms
        first = min(struck.at_ms for struck in self._struck)
        found = [p for p in pauses(recording.arrivals) if zero_ms(p.to_s) >= first]
        calm = [p for p in pauses(recording.arrivals) if 0 <= zero_ms(p.from_s) < first]
        longest = MS * max((pause.length_s for pause in found), default=0.0)
        self._found.figures["longest_pause_ms"] = round(longest)
        self._found.figures["undisturbed_pause_ms"] = round(
            MS * max((pause.length_s for pause in calm), default=0.0)
        )
        limit = self.scenario.holds.pause_ms
        if limit is not None:
            self._holds("pauses", f"{limit:g} ms at most", f"{longest:.0f} ms", longest <= limit)

    def _check_valid(self, stage: Stage) -> None:
        try:
            stage.job.validate()
        except GaplessError as e:
            self._holds("invariants", "of every machine", str(e), ok=False)
        else:
            self._holds("invariants", "of every machine", "they hold", ok=True)

    def _check_alarms(self, stage: Stage) -> None:
        notes = [seen.text for seen in stage.record.seen("note") if seen.text]
        wanted = self.scenario.holds.alarm
        if wanted is not None:
            found = next((text for text in notes if wanted in text), None)
            self._holds("told", f"an alarm with {wanted!r}", found or "none", found is not None)
        limit = self.scenario.holds.replaced
        if limit is not None:
            seen = {each.text for each in stage.record.seen("slot") if each.text}
            lives = [life for life in map(Life.parse, seen) if life is not None]
            count = len(lives) - len({life.slot for life in lives})
            self._holds("replaced", f"{limit} at most", f"{count}", count <= limit)
        if self.scenario.holds.agree:
            odd = next((text for text in notes if DIFFER in text), None)
            self._holds("replicas agree", "all of them", odd or "they do", odd is None)

    def _judge(self, found: Judgement) -> None:
        self._found.judgement = tuple(str(found).splitlines())
        rows = f"of {found.settled_rows} rows"
        for what, count in (
            ("lost", found.lost),
            ("duplicated", found.duplicated),
            ("contradicting", found.contradicting),
        ):
            self._holds(f"nothing {what}", "0", f"{count} {rows}", ok=count == 0)
        broken = [f for f in found.findings if f.verdict is Verdict.BROKEN]
        self._holds(
            "promises",
            "all that can be judged",
            "; ".join(map(str, broken)) or ", ".join(f.name for f in found.findings),
            ok=found.is_clean,
        )
        enough = found.settled_rows > 0
        self._holds("something to judge", "rows", f"{found.settled_rows}", ok=enough)
        self._found.figures["rows"] = found.settled_rows

    def _holds(self, name: str, wanted: str, found: str, ok: bool) -> None:
        self._found.held.append(Requirement(name, wanted, found, ok))


def versions() -> dict[str, str]:
    """Of all that takes part."""
    packages = {name: metadata.version(name) for name in ("gapless", "ray", "pyarrow", "numpy")}
    return {**packages, "python": platform.python_version(), "system": platform.platform()}


def seeded(scenario: Scenario, seed: int | None) -> Scenario:
    """The scenario with another seed, where one is given."""
    return scenario if seed is None else replace(scenario, seed=seed)
