"""A scenario: a job, what breaks while it runs, and what must hold; a TOML file.

    about = "A replica dies, and comes back by itself."
    workload = "talkers"             one of chaos/drill/workloads.py
    rate = 2000                      rows a second
    replicas = 3
    mergers = 2

    [[faults]]                       a timeline: seconds since the job was whole
    fault = "kill replica"
    at = 2.0
    target = "r0.1"                  drawn with the seed where it is not said

    [random]                         or, or as well, so many at random, one after the other
    count = 5
    every = [1.0, 3.0]               seconds from the job being whole again to the next
    faults = ["kill replica", "stop merger"]

    [holds]                          beside: nothing lost, doubled, contradicted; all faults struck
    pause_ms = 1000
    whole_s = 20

Everything that cannot be is refused when the file is read, with what there is instead.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from gapless.chaos.drill.faults.all import FAULTS
from gapless.chaos.drill.faults.fault import Fault, Part, Planned
from gapless.chaos.drill.workloads import REAL_WORKLOADS, RealWorkload
from gapless.protocol.errors import Misuse

LIBRARY = Path(__file__).resolve().parent / "library"
"""The scenarios that ship."""
BYTES_MAX = 1 << 20
"""Of a scenario's file: a thousand faults take a tenth of it."""
FAULTS_MAX = 1_000
"""In one scenario: hours of them."""
AT_S_MAX = 24 * 3600.0
MINUTES_MIN, MINUTES_MAX = 1.0, AT_S_MAX / 60
"""Of faults at random: in less than a minute nobody sees whether memory stays flat."""
RATE_MAX = 500_000
NODES_MAX = 8
REPLICAS_MAX, MERGERS_MAX = 9, 2
SEED_MAX = (1 << 63) - 1
"""What TOML promises to hold of a number."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Random:
    """Faults at random: the next strikes once the job is whole again."""

    count: int = 0
    minutes: float = 0.0
    """Instead of a count: for so long."""
    every: tuple[float, float] = (1.0, 3.0)
    """Seconds from the job being whole to the next, drawn between the two."""
    faults: tuple[str, ...] = ()
    """Drawn from these; where it is empty from all that can be (`Scenario.at_random`)."""


@dataclass(frozen=True, slots=True)
class Holds:
    """What must hold, beside what always must."""

    pause_ms: float | None = None
    """The longest time without results, from the first fault on; None: any."""
    whole_s: float = 30.0
    """From the last fault (its end, where it has one) until the job is whole again."""
    alarm: str | None = None
    """A part of an alarm that the job must have raised."""
    replaced: int | None = None
    """Lives that were started beside those that the job began with, at most; None: any number."""
    agree: bool = False
    """No alarm may say that replicas differ: the output may be right by luck."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario. Made by `parsed`, `loaded`, or by a test; `check` it before use."""

    name: str
    about: str = ""
    workload: str = "talkers"
    rate: int = 2_000
    replicas: int = 3
    mergers: int = 1
    nodes: int = 1
    plans: tuple[str, ...] = ()
    """Of the workload's plans, those that replicas run in turn; all of them where it is empty."""
    seed: int = 0
    checkpoint_s: float = 2.0
    on_divergence: Literal["report", "stop", "majority"] = "report"
    calm_s: float = 2.0
    """Undisturbed before the end, once the job is whole again."""
    faults: tuple[Planned, ...] = ()
    random: Random | None = None
    holds: Holds = field(default_factory=Holds)

    def kinds(self) -> tuple[str, ...]:
        """The names of all faults that it may strike with."""
        return tuple(dict.fromkeys([*(each.fault for each in self.faults), *self.at_random()]))

    def at_random(self) -> tuple[str, ...]:
        """The names of those that are drawn: what it lists; else all that this machine can have,
        and that it has the nodes, mergers and replicas for.
        """
        if self.random is None:
            return ()
        return self.random.faults or tuple(
            name
            for name in available()
            if FAULTS[name].bears_random and FAULTS[name].refuses(Planned(name, 0.0), self) is None
        )

    def parts(self) -> frozenset[Part]:
        """What its stage must have."""
        return frozenset(part for kind in self.kinds() for part in FAULTS[kind].parts)

    @property
    def is_long(self) -> bool:
        """Whether it goes on for minutes: then memory and descriptors must be flat."""
        return self.random is not None and self.random.minutes > 0

    def lasting(self, minutes: float) -> Scenario:
        """The same for so many minutes. Raises `Misuse` where it has no faults at random."""
        if self.random is None:
            raise self._refused("has no [random] faults, so it does not last")
        return replace(self, random=replace(self.random, count=0, minutes=minutes))

    @property
    def seconds_at_most(self) -> float:
        """How long its faults and what follows each may take."""
        drawn = self.random
        ends = [each.at + (each.lasts or FAULTS[each.fault].lasts or 0.0) for each in self.faults]
        seconds = max(ends, default=0.0) + self.holds.whole_s + self.calm_s
        if drawn is not None:
            longest = max((FAULTS[name].lasts or 0.0 for name in self.kinds()), default=0.0)
            one = drawn.every[1] + longest + self.holds.whole_s
            seconds += drawn.minutes * 60 + one * (drawn.count or 1)
        return seconds

    def document(self) -> dict[str, Any]:
        """All settings, for a report."""
        return asdict(self)

    def check(self, workload: RealWorkload | None = None) -> None:
        """Raises `Misuse` where it cannot be run, also on this machine. `workload`: what it is
        played with instead of the one that it names.
        """
        for name, value, low, high in (
            ("rate", self.rate, 1, RATE_MAX),
            ("replicas", self.replicas, 1, REPLICAS_MAX),
            ("mergers", self.mergers, 1, MERGERS_MAX),
            ("nodes", self.nodes, 1, NODES_MAX),
            ("seed", self.seed, 0, SEED_MAX),
            ("checkpoint_s", self.checkpoint_s, 0.1, AT_S_MAX),
            ("calm_s", self.calm_s, 0, AT_S_MAX),
            ("holds.whole_s", self.holds.whole_s, 0.1, AT_S_MAX),
            ("holds.pause_ms", self.holds.pause_ms, 1, 1_000 * AT_S_MAX),
            ("holds.replaced", self.holds.replaced, 0, FAULTS_MAX),
        ):
            if value is not None and not low <= value <= high:  # a NaN, too, is not between them
                raise self._refused(f"{name} = {value}: from {low:g} to {high:g}")
        if self.holds.alarm == "":
            raise self._refused('holds.alarm = "": a part of what the alarm says')
        self._check_workload(workload)
        if not self.faults and self.random is None:
            raise self._refused("nothing breaks in it: it wants [[faults]], or [random]")
        if len(self.faults) + (self.random.count if self.random else 0) > FAULTS_MAX:
            raise self._refused(f"more than {FAULTS_MAX} faults")
        for planned in self.faults:
            self._check_fault(planned)
        for name, count in Counter(planned.fault for planned in self.faults).items():
            if count > 1 and FAULTS[name].setup is not Fault.setup:
                raise self._refused(f"{name} takes a stage made for it: once in a scenario")
        if self.random is not None:
            self._check_random(self.random)

    def _check_workload(self, workload: RealWorkload | None) -> None:
        chosen = workload if workload is not None else REAL_WORKLOADS.get(self.workload)
        if chosen is None:
            raise self._refused(
                f"there is no workload {self.workload!r}; there are: {', '.join(REAL_WORKLOADS)}"
            )
        for name in self.plans:
            if name not in chosen.plans:
                raise self._refused(
                    f"there is no plan {name!r} of {chosen.name}; there are: "
                    f"{', '.join(chosen.plans)}"
                )

    def _check_fault(self, planned: Planned) -> None:
        kind = FAULTS.get(planned.fault)
        if kind is None:
            raise self._refused(f"there is no fault {planned.fault!r}; there are: {_all_names()}")
        if not 0 <= planned.at <= AT_S_MAX:
            raise self._refused(f"{planned.fault}: at = {planned.at:g}: from 0 to {AT_S_MAX:g}")
        if planned.lasts is not None and not 0 < planned.lasts <= AT_S_MAX:
            raise self._refused(
                f"{planned.fault}: lasts = {planned.lasts:g}: above 0, up to {AT_S_MAX:g}"
            )
        for name, value in planned.settings.items():
            self._check_setting(kind, name, value)
        if why := kind.refuses(planned, self):
            raise self._refused(f"{planned.fault} {why}")
        self._check_here(planned.fault)

    def _check_setting(self, kind: type[Fault], name: str, value: object) -> None:
        if name not in kind.settings:
            known = ", ".join(["at", "lasts", "target", *kind.settings])
            raise self._refused(f"{kind.name} has no {name!r}; it has: {known}")
        default, (low, high) = kind.settings[name], kind.limits[name]
        wanted = int if isinstance(default, int) else (int, float)
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise self._refused(f"{kind.name}: {name} = {value!r}: like {default!r}, its default")
        if not low <= value <= high:
            raise self._refused(f"{kind.name}: {name} = {value}: from {low:g} to {high:g}")

    def _check_here(self, name: str) -> None:
        if why := FAULTS[name].why_not():
            raise self._refused(
                f"this machine cannot have {name!r}: {why}. It can have: {', '.join(available())}"
            )

    def _check_random(self, drawn: Random) -> None:
        low, high = drawn.every
        if not 0 <= low <= high <= AT_S_MAX:
            raise self._refused(f"random.every = {list(drawn.every)}: two times, from 0 on")
        if drawn.count < 0:
            raise self._refused(f"random.count = {drawn.count}: 1 or more")
        if (drawn.count == 0) == (drawn.minutes == 0):
            raise self._refused("random: either a count of faults, or minutes")
        if drawn.minutes and not MINUTES_MIN <= drawn.minutes <= MINUTES_MAX:
            raise self._refused(
                f"random.minutes = {drawn.minutes:g}: from {MINUTES_MIN:g} to {MINUTES_MAX:g}"
            )
        for name in drawn.faults:
            if name not in FAULTS:
                raise self._refused(f"there is no fault {name!r}; there are: {_all_names()}")
            if not FAULTS[name].bears_random:
                raise self._refused(f"{name!r} needs a time of its own: put it under [[faults]]")
            self._check_fault(Planned(name, 0.0))

    def _refused(self, why: str) -> Misuse:
        return Misuse(f"scenario {self.name}: {why}")


def available() -> tuple[str, ...]:
    """The faults that this machine can have."""
    return tuple(name for name, kind in FAULTS.items() if kind.why_not() is None)


def not_available() -> dict[str, str]:
    """Those that it cannot have, and why."""
    found = {name: kind.why_not() for name, kind in FAULTS.items()}
    return {name: why for name, why in found.items() if why is not None}


def library() -> dict[str, Path]:
    """By name, the scenarios that ship."""
    return {path.stem: path for path in sorted(LIBRARY.glob("*.toml"))}


def loaded(name_or_path: str) -> Scenario:
    """A scenario that ships, by its name; or one from a file. Not checked yet."""
    shipped = library()
    path = shipped.get(name_or_path, Path(name_or_path))
    if not path.is_file():
        raise Misuse(
            f"there is no scenario {name_or_path!r}, and no such file; there are: "
            f"{', '.join(shipped)}"
        )
    try:
        if path.stat().st_size > BYTES_MAX:
            raise Misuse(f"scenario {path}: more than {BYTES_MAX} bytes")
        return parsed(path.stem, path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as e:
        raise Misuse(f"scenario {path}: {e}") from None


def parsed(name: str, text: str) -> Scenario:
    """A scenario from its text. Raises `Misuse` where it is bad, with what there is instead. What
    it says may still not be: `check` it.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        raise Misuse(f"scenario {name} is not TOML: {e}") from None
    except RecursionError:
        raise Misuse(f"scenario {name} is not TOML that we read: nested too deep") from None
    if "name" in document:
        raise Misuse(f"scenario {name}: there is no 'name': it is called as its file is")
    faults = document.pop("faults", [])
    if not isinstance(faults, list):
        raise Misuse(f"scenario {name}: faults is a list of tables: [[faults]]")
    planned = tuple(planned_fault(name, each) for each in faults)
    drawn, holds = document.pop("random", None), document.pop("holds", {})
    return _made(
        Scenario,
        f"scenario {name}",
        {
            **document,
            "name": name,
            "faults": planned,
            "random": None if drawn is None else _made(Random, f"scenario {name}: random", drawn),
            "holds": _made(Holds, f"scenario {name}: holds", holds),
        },
    )


def planned_fault(name: str, document: Any) -> Planned:
    """A fault from its table; `name` is that of its scenario."""
    where = f"scenario {name}: faults"
    if not isinstance(document, dict):
        raise Misuse(f"{where}: a list of tables, [[faults]]")
    ours = {field.name for field in fields(Planned)} - {"settings"}
    own = {key: value for key, value in document.items() if key in ours}
    rest = {key: value for key, value in document.items() if key not in ours}
    return _made(Planned, where, {**own, "settings": rest})


_FORMS: Mapping[str, Callable[[Any], bool]] = {
    "str": lambda value: isinstance(value, str),
    "bool": lambda value: isinstance(value, bool),
    "int": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "float": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "float | None": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "str | None": lambda value: isinstance(value, str),
    "tuple[str, ...]": lambda value: _all(value, str),
    "tuple[float, float]": lambda value: _all(value, int | float) and len(value) == 2,
}
"""By the annotation of a field, whether a value of TOML can be one."""


def _all(value: Any, kind: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, kind) and not isinstance(each, bool) for each in value
    )


def _made(kind: Callable[..., _T], where: str, document: Any) -> _T:
    """A dataclass from a table. Raises `Misuse` with what there is, where a key is not of it."""
    if not isinstance(document, dict):
        raise Misuse(f"{where}: a table")
    known = {field.name: str(field.type) for field in fields(kind)}  # type: ignore[arg-type]  # of dataclasses alone
    values = {}
    for key, value in document.items():
        if key not in known:
            raise Misuse(f"{where}: there is no {key!r}; there are: {_but(known, 'name')}")
        form = _FORMS.get(known[key])
        if form is not None and not form(value):
            raise Misuse(f"{where}: {key} = {value!r}: wanted is {known[key]}")
        if key == "on_divergence" and value not in get_args(Literal["report", "stop", "majority"]):
            raise Misuse(f'{where}: {key} = {value!r}: "report", "stop" or "majority"')
        values[key] = tuple(value) if isinstance(value, list) else value
    for each in fields(kind):  # type: ignore[arg-type]  # of dataclasses alone
        if each.name not in values and each.default is each.default_factory is MISSING:
            raise Misuse(f"{where}: {each.name} is not said")
    return kind(**values)


def _but(names: Iterable[str], left_out: str) -> str:
    return ", ".join(name for name in names if name != left_out)


def _all_names() -> str:
    return ", ".join(FAULTS)
