"""Limits are faults: bounds of the product that a run draws small, so that it comes to them.

    TAIL_ROWS_MAX = 1_000_000     no run of a simulation has as many rows, so none would ever see
                                  what a replica does there
    TAIL_ROWS_MAX = 5             for one run, drawn from its seed; behind it the product's again

What holds at a bound is what holds anywhere: somebody waits, nothing is lost, the job goes on. So
no checker knows of limits.

A bound is a name of a module that is looked up when it is needed. It is set there, and in the
modules that import the name. Every bound of the machines, of LMerge and of journals is drawn here
or explained in `limits_not_drawn.py`; a gate holds both to the sources.

A number that is drawn also watches what is compared with it, so that a run can tell which bounds it
*reached*: something was as large as the bound. A bound that no run reaches has not been tried.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Self

LIMITED_SHARE = 0.5
"""Of the runs, those that draw limits: what happens far from any bound is tried in the others."""
DRAWN_MAX = 6
"""Limits that a run draws at most: one rarely hides another."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A bound that runs draw."""

    bound: str
    """Folder, module and name."""
    least: int
    most: int
    """What is drawn."""
    others: tuple[str, ...] = ()
    """Modules that import the name."""
    stands_for: tuple[str, ...] = ()
    """Bounds in whose place a caller gives its own, as the simulator does: that one is drawn."""
    along: Mapping[str, int] = field(default_factory=dict)
    """Other bounds that have to be small for this one to be reached, and how small."""
    is_seen: bool = True
    """Whether it is compared with anything. What only cuts a list to its length tells nobody."""

    @property
    def name(self) -> str:
        """The bound's, without where it is."""
        return self.bound.rpartition(".")[2]

    def draw(self, rng: random.Random) -> dict[str, int]:
        """A value for it, and for those that have to be small along with it."""
        return {self.bound: rng.randint(self.least, self.most), **self.along}

    def modules(self) -> list[Any]:
        """Where it is looked up."""
        return [
            import_module(f"gapless.{name}")
            for name in (self.bound.rpartition(".")[0], *self.others)
        ]


LIMITS = (
    Limit("failover.backoff.DOUBLINGS_MAX", 2, 4),
    Limit("failover.replica.checkpoint.CHUNK_BYTES", 16, 400),
    Limit("failover.supervisor.checkpoint_policy.ASKED_MAX", 1, 2, is_seen=False),
    Limit("failover.supervisor.checkpoint_policy.KEPT", 1, 1),
    Limit("failover.subscriber.cursor.SLOWER_MAX", 1, 2, is_seen=False),
    Limit("failover.supervisor.fleet.OVER_MAX", 1, 6),
    Limit("failover.fold.FOLD_ROWS_MIN", 2, 40),
    Limit("failover.fold.SHARE_ROWS", 1, 8, along={"failover.parts.ROWS_MAX": 4}, is_seen=False),
    Limit(
        "failover.io.replica_io.READ_AHEAD_TIMES_MAX",
        1,
        1,
        along={"chaos.sim.replica_process.FRAME_ROWS": 3},
    ),
    Limit("failover.merger.inputs.EARLY_FRAMES_MAX", 4, 6),
    Limit("failover.merger.inputs.LIVES_MAX", 2, 3),
    Limit("failover.job.directory.KEPT", 1, 2, is_seen=False),
    Limit("failover.replica.link.CREDITS", 1, 2, ("failover.merger.inputs",)),
    Limit("failover.replica.link.DOUBLINGS_MAX", 0, 1),
    Limit("failover.replica.link.SMALL_ROWS_MAX", 1, 4),
    Limit("failover.merger.durable_output.PENDING_ROWS_MAX", 1, 12),
    Limit("failover.merger.input_sessions.STATE_BYTES_MAX", 1, 4_000),
    Limit("failover.merger.openings.PART_ROWS_MAX", 1, 5, is_seen=False),
    Limit("failover.replica.origins.PEERS_MAX", 1, 1, is_seen=False),
    Limit("failover.merger.output_journal.RECORDS_MAX", 1, 6),
    Limit("failover.supervisor.replacement_budget.REPLACEMENTS_MAX", 1, 2, is_seen=False),
    Limit("failover.parts.BYTES_MAX", 300, 900, is_seen=False),
    Limit("failover.parts.ROWS_MAX", 4, 10, along={"failover.fold.SHARE_ROWS": 3}),
    Limit("failover.merger.output_reader.KEPT_BYTES_MAX", 0, 200),
    Limit("failover.merger.recent_rows.FRAMES_MAX", 1, 3),
    Limit("failover.merger.recent_rows.READ_ROWS", 1, 8),
    Limit("failover.merger.recent_rows.ROWS_MAX", 2, 20),
    Limit("failover.replica.checkpoint.FRAME_BYTES_MAX", 40, 600),
    Limit("failover.job.directory.TRIES_MAX", 2, 3, is_seen=False),
    Limit("merge.membership.REASONS_MAX", 1, 2),
    Limit("merge.divergence.QUESTIONS_MAX", 1, 8),
    Limit("journal.segment.RECORD_BYTES_MAX", 200, 600),
    Limit("failover.merger.scan.SLICE_FRAMES", 1, 2, is_seen=False),
    Limit("failover.replica.output_sender.BACKLOG_FRAMES_MAX", 1, 2),
    Limit("failover.replica.output_sender.GATHER_FRAMES_MAX", 1, 3),
    Limit("failover.replica.output_sender.GATHER_MS", 1, 20),
    Limit("failover.replica.output_sender.GATHER_ROWS_MAX", 1, 8),
    Limit(
        "failover.replica.output_sender.KEPT_FRAMES_MAX",
        1,
        3,
        along={"failover.replica.tail.FOLD_ROWS_MIN": 2},
    ),
    Limit(
        "failover.replica.output_sender.PARTS_CREDITS", 1, 1, along={"failover.parts.ROWS_MAX": 6}
    ),
    Limit("failover.replica.output_sender.RUN_ROWS_MAX", 1, 6),
    Limit("failover.replica.initial_state.STATE_BYTES_MAX", 0, 1_000, ("failover.replica.draft",)),
    Limit("failover.replica.intake.TAIL_ROWS_MAX", 12, 40),
    Limit("failover.merger.readers.SUBSCRIBERS_MAX", 1, 2),
    Limit(
        "failover.replica.snapshots.MESSAGE_BYTES_MAX",
        0,
        400,
        along={"failover.replica.initial_state.STATE_BYTES_MAX": 0},
    ),
    Limit("failover.replica.tail.FOLD_ROWS_MIN", 2, 20),
    Limit(
        "failover.merger.output_writer.BASE_ROWS_MAX",
        0,
        4,
        along={"failover.merger.output_journal.RECORDS_MAX": 4},
    ),
    Limit(
        "operators.operator.ANSWER_ROWS_MAX",
        2,
        6,
        (
            "operators.adaptive",
            "operators.ahead",
            "operators.answers",
            "operators.bucket",
            "operators.followed_by",
            "operators.held",
            "operators.join_pairs",
            "operators.join_unmatched",
            "operators.paned",
            "operators.per_snapshot",
            "operators.row_window",
            "operators.session_state",
            "operators.settle",
            "operators.sketched_panes",
            "operators.wid",
            "operators.window_rows",
        ),
    ),
    Limit("journal.commit.FULL_EVERY", 1, 4),
    Limit("journal.commit.TRIES_MAX", 2, 3, ("journal.retention",), is_seen=False),
    Limit("journal.cursor.CHUNK_BYTES", 64, 2_000),
    Limit("journal.cursor.READ_BYTES", 64, 2_000),
    Limit("journal.disk.SYNC_BYTES", 40, 4_000, ("failover.job.whole_file", "journal.base")),
    Limit("journal.facts.NAMES_FEW", 1, 2),
    Limit(
        "chaos.sim.cluster.HEADROOM_BYTES",
        64,
        4_000,
        stands_for=("journal.headroom.HEADROOM_BYTES",),
    ),
    Limit("journal.reader.LOOKS_PER_LISTING", 1, 4),
    Limit("chaos.sim.replica_process.FRAME_ROWS", 1, 5, stands_for=("journal.reader.FRAME_ROWS",)),
    Limit("chaos.sim.cluster.BASE_BYTES", 100, 6_000, stands_for=("journal.writer.BASE_BYTES",)),
    Limit(
        "chaos.sim.cluster.SEGMENT_BYTES", 200, 8_000, stands_for=("journal.segment.SEGMENT_BYTES",)
    ),
)
"""All that are drawn."""

BY_BOUND: Mapping[str, Limit] = {limit.bound: limit for limit in LIMITS}


class Watched(int):
    """A bound that knows whether anything was as large."""

    reached: bool
    _seen_by: Watched | None

    def __new__(cls, value: int) -> Self:
        """Nothing was, so far."""
        bound = super().__new__(cls, value)
        bound.reached = False
        bound._seen_by = None
        return bound

    def _looks(self, other: Any) -> None:
        if other >= int(self):
            self.reached = True
            if self._seen_by is not None:
                self._seen_by.reached = True

    def __lt__(self, other: Any) -> bool:
        self._looks(other)
        return int.__lt__(self, other)

    def __le__(self, other: Any) -> bool:
        self._looks(other)
        return int.__le__(self, other)

    def __gt__(self, other: Any) -> bool:
        self._looks(other)
        return int.__gt__(self, other)

    def __ge__(self, other: Any) -> bool:
        self._looks(other)
        return int.__ge__(self, other)

    def __rmod__(self, other: int) -> int:
        """What is done every so manieth time."""
        rest = int.__rmod__(self, other)
        self.reached |= rest == 0
        return rest

    def __add__(self, other: int) -> Watched:
        """So much beyond something is as good as the bound itself."""
        further = Watched(int.__add__(self, other))
        further._seen_by = self
        return further

    __radd__ = __add__

    def __mul__(self, other: int) -> int:
        """A multiple is as good as the bound itself, except for zero, which everything reaches."""
        product = Watched(int.__mul__(self, other))
        product._seen_by = self
        return product or 0

    __rmul__ = __mul__

    def __sub__(self, other: int) -> int:
        """What room there is."""
        self._looks(other)
        return int.__sub__(self, other)

    def __rsub__(self, other: int) -> int:
        """What is beyond it."""
        self._looks(other)
        return int.__rsub__(self, other)

    def __rfloordiv__(self, other: int) -> int:
        """How many pieces it makes; upside down where they are rounded up."""
        self._looks(abs(other))
        return int.__rfloordiv__(self, other)


def drawn(seed: int) -> dict[str, int]:
    """The limits of a run, by bound; none in many."""
    rng = random.Random(f"limits {seed}")
    if rng.random() >= LIMITED_SHARE:
        return {}
    values: dict[str, int] = {}
    for limit in rng.sample(LIMITS, rng.randint(1, DRAWN_MAX)):
        values |= limit.draw(rng)
    return values


@contextmanager
def limited(values: Mapping[str, int]) -> Iterator[dict[str, Watched]]:
    """Within, bounds are these; behind, what they were. Gives the bounds that are set."""
    watched = {bound: Watched(value) for bound, value in values.items()}
    before: list[tuple[Any, str, int]] = []
    try:
        for bound, value in watched.items():
            limit = BY_BOUND[bound]
            for module in limit.modules():
                before.append((module, limit.name, vars(module)[limit.name]))
                vars(module)[limit.name] = value
        yield watched
    finally:
        for module, name, value in reversed(before):
            vars(module)[name] = value


def told(values: Mapping[str, int]) -> str:
    """For a person: "TAIL_ROWS_MAX=5 (failover.replica.intake)"."""
    return ", ".join(
        f"{BY_BOUND[bound].name}={int(value)} ({bound.rpartition('.')[0]})"
        for bound, value in values.items()
    )
