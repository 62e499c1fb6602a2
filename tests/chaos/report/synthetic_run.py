"""A record and an outcome as a real run leaves them, drawn with a seed: what reports are tried on.

Replicas follow the sources, some are killed or stopped, and come back; the output pauses for it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from gapless.chaos.drill.outcome import Outcome, Requirement, Strike
from gapless.chaos.judge.record import Record
from gapless.protocol.elements import INF

LOOK_MS, PROCESS_MS, FRAME_MS = 250, 1_000, 200
START_MS = -3_000
KINDS = ("kill replica", "stop replica", "kill merger", "squeeze memory")


@dataclass(frozen=True)
class Shape:
    """Of a run."""

    seconds: int = 30
    faults: int = 4
    replicas: int = 3
    mergers: int = 2
    ends: bool = True
    """Whether the output comes to its end: else it falls silent half-way."""

    @property
    def slots(self) -> list[str]:
        names = [f"r0.{i}" for i in range(self.replicas)]
        return names + [f"m0.{i}" for i in range(self.mergers)]


def synthetic(seed: int, shape: Shape = Shape()) -> tuple[Outcome, Record]:
    """One run."""
    rng = random.Random(f"report {seed}")
    record, strikes = Record(), _strikes(rng, shape)
    for number, slot in enumerate(shape.slots):
        _slot(rng, record, slot, number, strikes, shape)
    for at in range(START_MS, shape.seconds * 1000, LOOK_MS):
        record.see("source", "rows", at_ms=at, stable=max(0, at - START_MS - 200))
    record.see("whole", "job", at_ms=140)
    for strike in strikes:
        record.see("fault", strike.target, at_ms=strike.at_ms, text=strike.fault)
        if strike.healed_ms is not None:
            record.see("heal", strike.target, at_ms=strike.healed_ms, text=strike.fault)
        record.see("whole", "job", at_ms=_back_ms(strike))
    longest = max(_output(rng, record, who, strikes, shape) for who in ("changes", "final"))
    _processes(rng, record, strikes, shape)
    record.see("note", "r0.1", at_ms=3_100, text="it is suspected: silent for 800 ms")
    return _outcome(seed, shape, strikes, longest), record


def _strikes(rng: random.Random, shape: Shape) -> tuple[Strike, ...]:
    found = []
    for number in range(shape.faults):
        at = round(1000 * (2 + number * (shape.seconds - 6) / max(1, shape.faults)))
        kind = rng.choice(KINDS)
        role = "m0" if "merger" in kind else "r0"
        target = f"{role}.{rng.randrange(shape.mergers if role == 'm0' else shape.replicas)}"
        lasts = None if kind.startswith("kill") else rng.randint(900, 2_400)
        healed = None if lasts is None else at + lasts
        found.append(Strike(kind, target, at, healed, f"pid {rng.randint(2_000, 30_000)}"))
    return tuple(found)


def _back_ms(strike: Strike) -> int:
    return (strike.healed_ms or strike.at_ms) + 1_400


def _slot(
    rng: random.Random,
    record: Record,
    slot: str,
    number: int,
    strikes: tuple[Strike, ...],
    shape: Shape,
) -> None:
    mine = [strike for strike in strikes if strike.target == slot]
    stable, was, counter = 0.0, "", number + 1
    for at in range(START_MS + rng.randrange(LOOK_MS), shape.seconds * 1000, LOOK_MS):
        promised = max(0, at - START_MS - 200)
        hit = next((s for s in mine if s.at_ms <= at < _back_ms(s)), None)
        if at < -1_200:
            state = "starting" if at < -2_000 else "joining"
        elif hit is None:
            state = "running"
        elif hit.healed_ms is not None:
            state = "suspected" if at > hit.at_ms + 400 else "running"
        else:
            age = at - hit.at_ms
            state = "empty" if age < 400 else "starting" if age < 800 else "joining"
        if was == "empty" and state == "starting":
            counter += 10
        was = state
        if state == "running" and hit is None:
            behind = promised - rng.uniform(60, 320)
            stable = max(stable, min(behind, stable + 6 * LOOK_MS))
        is_there = state in ("running", "suspected") and stable > 0
        record.see(
            "slot",
            slot,
            at_ms=at,
            state=state,
            stable=round(stable) if is_there else None,
            lag_ms=max(0, round(promised - stable)) if is_there else None,
            text="" if state == "empty" else f"{slot}/1.{counter}",
        )


def _output(
    rng: random.Random, record: Record, who: str, strikes: tuple[Strike, ...], shape: Shape
) -> int:
    """The longest gap between frames."""
    at, before, longest = -400.0, None, 0
    until = shape.seconds * 1000 - 900 if shape.ends else shape.seconds * 500
    while at < until:
        at += rng.uniform(0.6, 1.4) * FRAME_MS
        for strike in strikes:
            if "merger" in strike.fault and strike.at_ms <= at < strike.at_ms + 700:
                at = strike.at_ms + 700.0 + rng.uniform(0, 500)
        moment = round(at)
        record.see("output", who, at_ms=moment, rows=rng.randint(18, 60), stable=moment)
        record.see("output", who, at_ms=moment + 20, rows=0, stable=moment + 20)
        longest = max(longest, 0 if before is None else moment - before)
        before = moment
    if shape.ends:
        record.see("output", who, at_ms=round(at) + 30, rows=0, stable=INF)
    return longest


def _processes(
    rng: random.Random, record: Record, strikes: tuple[Strike, ...], shape: Shape
) -> None:
    for number, who in enumerate((*shape.slots, "root")):
        size, pid = 210e6 + 9e6 * number, 4_000 + number
        for at in range(START_MS, shape.seconds * 1000, PROCESS_MS):
            for strike in strikes:
                if (
                    strike.target == who
                    and strike.healed_ms is None
                    and 0 <= at - strike.at_ms < 1e3
                ):
                    size, pid = 205e6, pid + 50
            size += rng.uniform(-1e6, 1.3e6)
            record.see("process", who, at_ms=at, rss=round(size), fds=58 + rng.randrange(6),
                       text=str(pid))  # fmt: skip


def _outcome(seed: int, shape: Shape, strikes: tuple[Strike, ...], longest: int) -> Outcome:
    rows = shape.seconds * 180
    return Outcome(
        name="kill-and-stop",
        about="Replicas and mergers die and freeze; the others' output goes on.",
        seed=seed,
        began="2025-01-02T03:04:05+00:00",
        seconds=shape.seconds + 14.2,
        config={
            "workload": "talkers", "rate": 2_000, "replicas": shape.replicas,
            "mergers": shape.mergers, "random": {"count": shape.faults, "minutes": 0.0},
            "broken": None,
        },
        versions={"gapless": "0.1.0", "ray": "2.60.0", "pyarrow": "26.0.0", "python": "3.11.9"},
        strikes=strikes,
        held=(
            Requirement("faults strike", "all of them", str(len(strikes)), True),
            Requirement("pauses", "3000 ms at most", f"{longest} ms", longest <= 3_000),
            Requirement("nothing lost", "0", f"0 of {rows} rows", True),
            Requirement("nothing duplicated", "0", f"0 of {rows} rows", True),
        ),
        figures={"longest_pause_ms": longest, "undisturbed_pause_ms": 281, "rows": rows},
        judgement=(f"0 lost, 0 duplicated, 0 contradicting of {rows} rows", "stable: holds"),
    )  # fmt: skip
