"""Trials of a merger: many tellings of one table, faults in between, every step checked.

Do your streams merge? Also while replicas crash, join late, and skip what feedback has settled? A
trial finds out. It knows the table, so nobody has to say what the output should have been:

    table --- tell() ---> Teller 0 --.                  each step: the output is a legal stream,
          --- tell() ---> Teller 1 ---> merger --->     compatible with all that was said, as far
          --- tell() ---> Teller 2 --'                  on as its policy says, and blames nobody;
                                                        the end: the output is the table

A `Teller` is an input: it says its frames one by one, and may skip what feedback lets it skip. A
`Trial` pushes what they say through a merger and checks. `run_seed` writes the play: who speaks
when, who crashes, who joins at what time, all drawn from one seed, so that a failure replays
exactly. `rehearse` does it with streams that you recorded.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal, Protocol, SupportsInt

from gapless.chaos.tellers import Teller
from gapless.merge.choose import CaseName, StreamProperties
from gapless.merge.compatible import check_compatible
from gapless.merge.lmerge import LMerge
from gapless.merge.policy import Policy
from gapless.protocol.elements import BEGIN, INF, format_time
from gapless.protocol.errors import BadData, GaplessError, Misuse
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import DEFAULT_SCHEMA, format
from gapless.protocol.variants import Telling, random_tdb, random_telling, tell

TrialCase = CaseName | Literal["auto"]

PAYLOADS: list[tuple[object, ...]] = [("A",), ("B",), ("C",)]
EVENTS, SPAN = 20, 40
"""Of a drawn table: few enough to check every step, enough that no two tellings are alike."""
DENSE_PAYLOADS, DENSE_SPAN = PAYLOADS[:2], 8
"""Of a table with duplicates: so few that most events share payload and start with another."""
INPUTS = 3
"""Inputs at the beginning; more join later."""
FAULTS = Counter(join=3, crash=2, all_but_one=1, everybody=1)
"""Most faults of each kind in one trial."""
AHEAD = 12
"""How far ahead of the output an input may join and still matter before the streams end."""
FAULT_RATE = 0.15
"""Of the steps; on average a trial sees most of its faults before its streams end."""
PACES = (1, 2, 6)
"""How often an input speaks, in relation to others: some run ahead, most fall behind."""

TRACE_LINES_SHOWN, TRACE_CHARS_SHOWN = 10, 200
"""Of a trace, in a message: what led to the failure is mostly in the last steps."""


class Merging(Protocol):
    """What a trial needs of a merger."""

    @property
    def stable(self) -> int:
        """The output's stable."""

    @property
    def detached(self) -> dict[int, GaplessError | None]:
        """Who left, and why."""

    @property
    def divergences(self) -> SupportsInt:
        """How often inputs contradicted each other."""

    def attach(self, join_at: int = BEGIN, properties: StreamProperties | None = None) -> int:
        """The number of a new input, that declares to be of some `properties`."""

    def push(self, number: int, frame: Frame) -> Frame:
        """What a frame adds to the output."""

    def detach(self, number: int) -> None:
        """Lets an input go."""

    def feedback(self, number: int) -> int:
        """Events with a final `ve` below this time are settled."""

    def validate(self) -> None:
        """Raises where an invariant is broken."""


Maker = Callable[[StreamSchema, TrialCase, Policy], Merging]


class TrialFailed(BadData):
    """A merge did not come out as its inputs say. The message says at which step, and how.

    `trace` is what happened up to there, a line each; the message ends with its last lines.
    """

    def __init__(self, problem: str, trace: Sequence[str] = ()) -> None:
        last = [
            f"{line[:TRACE_CHARS_SHOWN]} ..." if len(line) > TRACE_CHARS_SHOWN else line
            for line in trace[-TRACE_LINES_SHOWN:]
        ]
        super().__init__(
            "\n  ".join([f"{problem}\nthe last that happened:", *last] if last else [problem])
        )
        self.trace = tuple(trace)


# -- the trial --------------------------------------------------------------------------------


class Trial:
    """Tellers, a merger, and what comes out; each step raises `TrialFailed` at a broken promise."""

    def __init__(self, merge: Merging, schema: StreamSchema, policy: Policy, key: bool) -> None:
        self.merge = merge
        self.policy = policy
        self.key = key
        self.output = Tdb(schema)
        self.frames: list[Frame] = []
        """What came out."""
        self.trace: list[str] = []
        """What happened, a line each: who joined, spoke, left."""
        self.present: dict[int, Teller] = {}
        self.past: list[Teller] = []
        self.lost_all = False
        """Whether at some time nobody was there."""

    @property
    def speakers(self) -> list[int]:
        """Those who have something to say."""
        return [n for n, teller in self.present.items() if not teller.done]

    @property
    def bearers(self) -> list[int]:
        """Those who can carry the output to its end alone."""
        return [n for n, teller in self.present.items() if teller.join_at <= self.merge.stable]

    def attach(self, teller: Teller) -> int:
        """Lets a teller join; its number."""
        number = self.merge.attach(teller.join_at, teller.properties)
        self.present[number] = teller
        self.trace.append(f"attach {number} join {format_time(teller.join_at)}")
        return number

    def detach(self, number: int) -> None:
        """Lets a teller crash: it is not heard again. What it said stays said."""
        self.merge.detach(number)
        self.past.append(self.present.pop(number))
        self.lost_all |= not self.present
        self.trace.append(f"detach {number}")

    def step(self, number: int, heed: bool = False) -> None:
        """Lets a teller speak, after it has taken note of its feedback if it is to `heed` it."""
        teller = self.present[number]
        if heed:
            teller.heed(self.merge.feedback(number))
        try:
            said = teller.speak()
            self.trace.append(f"{number}: {format(said.elements())}")
            out = self.merge.push(number, said)
            self.trace.append(f"-> {format(out.elements())}")
            self.output.fold(out)
            self.frames.append(out)
            self.merge.validate()
            self._check(number)
            self._check_policy(out)
        except GaplessError as problem:
            raise TrialFailed(f"step {len(self.trace)}: {problem}", self.trace) from problem

    def _check(self, speaker: int) -> None:
        if speaker in self.merge.detached:
            raise TrialFailed(f"input {speaker} was detached: {self.merge.detached[speaker]}")
        if int(self.merge.divergences):
            raise TrialFailed(f"inputs that agree were said to diverge: {self.merge.divergences}")
        if self.merge.stable != self.output.stable:
            ours, theirs = map(format_time, (self.merge.stable, self.output.stable))
            raise TrialFailed(
                f"the merger says that it is stable at {ours}, its output at {theirs}"
            )
        if self.policy.insert != "fully_frozen":  # that one waits for the ends of events
            for number in self.bearers:
                target = self.policy.target(self.present[number].stable)
                if target > self.merge.stable:
                    raise TrialFailed(f"input {number} could act up to {format_time(target)}")
        tellers = [*self.present.values(), *self.past]
        claims = [t.claims() for t in tellers]
        since = [t.complete_from for t in tellers]
        check_compatible(claims, self.output, key=False, join_at=since)
        if self.key:
            check_compatible(claims, self.output)

    def _check_policy(self, out: Frame) -> None:
        """What the policy promises beyond a correct output."""
        adjusts = out.adjusts
        insert, adjust = self.policy.insert, self.policy.adjust
        if adjust == "at_stable" and len(adjusts) and out.stable is None:
            raise TrialFailed("an adjust without a stable that asks for it")
        if insert == "fully_frozen" and len(adjusts):
            raise TrialFailed("what had been put out as final is changed")
        if insert == "half_frozen" and adjust == "at_stable" and (adjusts.ve == adjusts.vs).any():
            raise TrialFailed("what had been put out as half frozen is taken back")

    def check_end(self, table: Tdb) -> None:
        """Raises unless the output is `table`, as far as both are stable."""
        at = min(self.output.stable, table.stable)
        ours, wanted = self.output.frozen(at), table.frozen(at)
        if ours != wanted:
            difference = ours.difference(wanted)
            problem = f"at {format_time(at)} the output is not the table:\n{difference}"
            raise TrialFailed(problem, self.trace)


# -- the play ---------------------------------------------------------------------------------


def run_seed(
    seed: int,
    make: Maker = LMerge,
    case: TrialCase = "r3",
    policy: Policy | None = None,
    teller: type[Teller] = Teller,
) -> Trial:
    """One trial of a case, drawn from `seed`: returns when all is said, raises `TrialFailed`.

    Inputs crash at any prefix, join at any time, all but one crash at once, all crash and others
    come at or below the output's stable, and each obeys feedback more or less. Case auto is fed all
    kinds of tellings at once, declared or not, so it has to step.
    """
    rng = random.Random(f"trial {seed}")
    policy = policy or Policy()
    key = case in ("r0", "r3") or (case != "r4" and rng.random() < 0.5)
    table = draw_table(rng, case, key)
    trial = Trial(make(DEFAULT_SCHEMA, case, policy), DEFAULT_SCHEMA, policy, key)

    def join(at: int = BEGIN) -> None:
        telling = draw_telling(rng, case, None if at == BEGIN else at)
        newcomer = teller(tell(table, telling, rng.getrandbits(32)), at, key)
        newcomer.pace = rng.choice(PACES)
        if case == "auto" and rng.random() < 0.9:
            newcomer.properties = _properties(telling, key)
        trial.attach(newcomer)

    for _ in range(INPUTS):
        join()
    obedience = rng.choice((0.0, 0.3, 1.0))
    faults = FAULTS.copy()
    while trial.speakers:
        if rng.random() < FAULT_RATE and faults.total() and trial.merge.stable < INF:
            fault = rng.choice(sorted(faults.elements()))
            faults[fault] -= 1
            _strike(trial, fault, rng, join)
        else:
            paces = [trial.present[n].pace for n in trial.speakers]
            [speaker] = rng.choices(trial.speakers, paces)
            trial.step(speaker, heed=rng.random() < obedience)
    if trial.merge.stable != INF:
        problem = f"all is said, and the output is at {format_time(trial.merge.stable)}"
        raise TrialFailed(problem, trial.trace)
    table.stable = INF
    trial.check_end(table)
    return trial


def rehearse(
    streams: Sequence[Sequence[Frame]],
    seed: int,
    make: Maker = LMerge,
    case: TrialCase = "auto",
    policy: Policy | None = None,
) -> Trial:
    """One trial of recorded streams of one table, all from its beginning; raises `TrialFailed`.

    They are merged in an order drawn from `seed`. Each crashes somewhere, except for one that is
    heard to its end; as far as that one is stable the output has to be its table.
    """
    rng = random.Random(f"rehearsal {seed}")
    key = case in ("r0", "r3")
    tellers = [Teller(frames, key=key) for frames in streams]
    if not tellers:
        raise Misuse("a rehearsal needs one stream at least")
    schema, policy = tellers[0].schema, policy or Policy()
    trial = Trial(make(schema, case, policy), schema, policy, key)
    lives = {trial.attach(t): rng.randint(0, len(f)) for t, f in zip(tellers, streams, strict=True)}
    survivor = rng.choice(list(lives))
    teller = trial.present[survivor]
    while trial.speakers:
        number = rng.choice(trial.speakers)
        if lives[number] == 0 and number != survivor:
            trial.detach(number)
            continue
        lives[number] -= 1
        trial.step(number)
    trial.check_end(teller.claims())
    return trial


def _strike(trial: Trial, fault: str, rng: random.Random, join: Callable[..., None]) -> None:
    """Lets a fault happen; somebody who can carry the output to its end stays, or comes."""
    stable = trial.merge.stable
    match fault:
        case "join":
            ahead = rng.choice((0, rng.randrange(AHEAD), rng.randrange(SPAN)))
            join(min(max(stable, 0) + ahead, INF))
        case "crash":
            victim = rng.choice(list(trial.present))
            if trial.bearers != [victim]:
                trial.detach(victim)
        case "all_but_one":
            survivor = rng.choice(trial.bearers)
            for number in list(trial.present):
                if number != survivor:
                    trial.detach(number)
        case "everybody":
            for number in list(trial.present):
                trial.detach(number)
            join(BEGIN if stable == BEGIN else stable - rng.choice((0, 0, 5)))


def draw_table(rng: random.Random, case: TrialCase, key: bool) -> Tdb:
    """A table that streams of a case may describe; `key`: (payload, vs) is one of it."""
    payloads, span = (PAYLOADS, SPAN) if key else (DENSE_PAYLOADS, DENSE_SPAN)
    table = random_tdb(rng, DEFAULT_SCHEMA, payloads, EVENTS, span, duplicates=not key)
    if case != "r0":
        return table
    return Tdb(DEFAULT_SCHEMA, {e.vs: e for e in table.events}.values())


def draw_telling(rng: random.Random, case: TrialCase, join_at: int | None) -> Telling:
    """A way of telling that a case may be fed."""
    if case == "auto":
        case = rng.choice(("r0", "r2", "r2", "r3"))  # rarely r3, so that r2 lasts for a while
    if case in ("r3", "r4"):
        return random_telling(rng, join_at)
    return Telling(
        order="ties_shuffled" if case == "r2" else "by_start",
        stable_every=rng.choice((None, 2, 8)),
        stable_lag=rng.choice((0, 5)),
        join_at=join_at,
        frame_rows=rng.choice((1, 4, 16)),
    )


def _properties(telling: Telling, key: bool) -> StreamProperties:
    """What an honest teller declares."""
    ordered = telling.order != "any"
    return StreamProperties(ordered=ordered, insert_only=ordered, key=key)
