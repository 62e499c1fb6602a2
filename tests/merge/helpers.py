"""What the tests of LMerge share: the policies, the mergers, and how to talk to one."""

import os
from collections.abc import Iterator

from gapless.chaos.trials import Maker, Merging
from gapless.merge.choose import CaseName, StreamProperties
from gapless.merge.lmerge import LMerge
from gapless.merge.policy import AdjustRule, InsertRule, Lag, Policy, Quorum, lag, quorum
from gapless.merge.reference import ReferenceMerge
from gapless.protocol.frame import Frame
from gapless.protocol.tdb import Tdb
from gapless.protocol.text import DEFAULT_SCHEMA, format, parse

MERGERS: dict[str, Maker] = {"fast": LMerge, "reference": ReferenceMerge}
CASES: tuple[CaseName, ...] = ("r0", "r1", "r2", "r3", "r4")

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
TRIALS = 60
"""Trials of a case in one run of the tests: enough to catch every planted fault."""

PAYLOADS: list[tuple[object, ...]] = [("A",), ("B",), ("C",)]
STRICT = StreamProperties(strictly_ordered=True, insert_only=True)
TIES = StreamProperties(ordered=True, insert_only=True)
"""What inputs declare."""

INSERTS: tuple[InsertRule | Quorum, ...] = (
    "first",
    "leading",
    "highest_insert",
    "most_unfrozen",
    "half_frozen",
    "fully_frozen",
    quorum(2),
    quorum(9),  # more than are ever attached
)
ADJUSTS: tuple[AdjustRule, ...] = ("at_stable", "at_once", "leading")


def policies(case: CaseName) -> Iterator[Policy]:
    """Every policy that a case takes."""
    for insert in INSERTS:
        for adjust in ADJUSTS:
            if insert == "fully_frozen" and adjust != "at_stable":
                continue
            for stable in (Policy(), Policy(stable=lag(4))):
                policy = Policy(insert, adjust, stable.stable)
                if case >= "r3" or not policy.keeps_events:
                    yield policy


def name(policy: Policy) -> str:
    """A policy as a test's name."""
    insert = f"quorum{policy.insert.k}" if isinstance(policy.insert, Quorum) else policy.insert
    stable = "lag" if isinstance(policy.stable, Lag) else policy.stable
    return f"{insert}-{policy.adjust}-{stable}"


EVERY_POLICY = [(case, policy) for case in CASES for policy in policies(case)]
POLICY_NAMES = [f"{case}-{name(policy)}" for case, policy in EVERY_POLICY]


def frame(text: str) -> Frame:
    """A frame in text notation."""
    return Frame.from_elements(DEFAULT_SCHEMA, parse(text))


def say(merge: Merging, number: int, text: str) -> str:
    """What a merger puts out when an input says `text`."""
    return format(merge.push(number, frame(text)).elements())


def table(text: str) -> Tdb:
    """The table that a frame in text notation makes."""
    tdb = Tdb(DEFAULT_SCHEMA)
    tdb.fold(frame(text))
    return tdb
