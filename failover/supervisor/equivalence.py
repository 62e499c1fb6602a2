"""Whether a plan can take the place of another one.

    written the same                  yes, however it is run: its operators give one table
    other sources, another schema     no
    written differently               nobody can know: refused, unless their author gives
                                      their word (`assumed`), which helps where the forms are not
                                      known to be two

A table says more than what holds at each instant: [0, 10) and [0, 4) + [4, 10) hold the same, and
are two tables, between which LMerge would go to and fro. What holds decides the table in two
forms. In normal form (`normalise`, `distinct`, `top_k`, a difference, a free aggregate) each
payload lives as long as it can. In steps each event lasts one step, from one multiple of it to the
next, as the answers of a window with a slide do. Plans of two forms give two tables, whatever
anybody's word is; of events of any length the word is that the lifetimes are the same, too.

A window of 60 s written for one of 30 s, another condition, another function: all of these are
written differently. That two such queries agree is seen in no form. Where the word that they do is
wrong, replicas diverge, which mergers count and report, and subscribers have two answers in one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from gapless.engine import nodes
from gapless.engine.comparison import first_difference
from gapless.engine.nodes import Node
from gapless.engine.plan import Plan
from gapless.engine.splice import Runnable, Splice, plans_of
from gapless.protocol.elements import INF
from gapless.protocol.errors import Misuse, NotEquivalent
from gapless.protocol.schema import StreamSchema

Case = Literal["r3", "r4"]
"""Of LMerge, for outputs that come in any order: r3 where (payload, vs) is a key."""

_NORMAL = (nodes.Normalise, nodes.Distinct, nodes.TopK, nodes.Difference)
"""What puts out normal form, whatever comes in; an aggregate does so over free lifetimes."""


def check_equivalent(old: Runnable, new: Runnable, *, assumed: bool = False) -> tuple[str, ...]:
    """Raises `NotEquivalent` unless `new` may run beside `old`, and in its place.

    `assumed`: somebody's word that both give the same, where that cannot be known. Returns what was
    taken on that word, one sentence each; nothing for plans of one query.
    """
    if isinstance(old, Splice) or isinstance(new, Splice):
        return _splices(old, new, assumed)
    _check_schemas(old.query.schema, new.query.schema)
    _check_sources(old, new, all_of_them=True)
    difference = first_difference(old.query, new.query)
    if difference is None:
        return ()
    mine, theirs = _form(old), _form(new)
    if mine is not None and theirs is not None and mine != theirs:
        raise NotEquivalent(
            f"the old plan gives {_words(mine)}, the new one {_words(theirs)}, so equal answers "
            f"are not equal tables ({difference}): put .normalise() on both, or cut over at a time"
        )
    unknown = f"whether both plans give the same cannot be known: {difference}"
    if not assumed:
        raise NotEquivalent(
            f"{unknown}; for another answer cut over at a time (`--at`, at=), and where both do "
            "give the same say so (`--assume-equivalent`, assume_equivalent=True)"
        )
    return (
        unknown,
        *(f"replicas may diverge: {why}" for why in new.query.properties.may_diverge),
    )


def check_changed(old: Runnable, new: Runnable) -> None:
    """Raises `NotEquivalent` unless `new` may begin where `old` ends: cutover at a time.

    The answer may be another one, of the same schema. Sources may be others; one that both read is
    described in one way.
    """
    _check_schemas(_schema(old), _schema(new))
    for before in plans_of(old):
        for after in plans_of(new):
            _check_sources(before, after, all_of_them=False)


def successors(
    old: Runnable, plans: Mapping[str, Runnable], at: int | None, *, assumed: bool = False
) -> tuple[dict[str, Runnable], tuple[str, ...]]:
    """What replicas run after a cutover from `old` to these plans, and what was taken on somebody's
    word. All of them give the same: what `old` gives or, with `at`, what `old` gives before that
    time and the new query from then on. Raises `NotEquivalent` and `Misuse`.
    """
    first = old if at is None else next(iter(plans.values()))
    notes: dict[str, None] = {}
    wanted: dict[str, Runnable] = {}
    for name, new in plans.items():
        if at is not None:
            check_changed(old, new)
            if isinstance(new, Splice):
                raise Misuse("cutover: a plan that changes itself cannot be changed to")
        notes.update(dict.fromkeys(check_equivalent(first, new, assumed=assumed)))
        wanted[name] = new if at is None or isinstance(new, Splice) else Splice(old, new, at)
    return wanted, tuple(notes)


def check_fits(name: str, plan: Runnable, *, insert_only: bool, case: Case) -> None:
    """Raises `NotEquivalent` unless a plan keeps what its job's output promises."""
    if insert_only and not plan.insert_only:
        raise NotEquivalent(
            f"plan {name}: it adjusts events, and the job has promised that its output never does: "
            "its subscribers have taken events for final; start a new job"
        )
    if case == "r3" and not _has_key(plan):
        raise NotEquivalent(
            f"plan {name}: (payload, vs) may not be a key of its output, and the job merges by it "
            "(case r3): group by what tells events apart, or start a job of case r4"
        )


def merge_case(plan: Runnable) -> Case:
    """The strictest case that a plan's output fits."""
    return "r3" if _has_key(plan) else "r4"


# -- what is compared -----------------------------------------------------------------------------


def _splices(old: Runnable, new: Runnable, assumed: bool) -> tuple[str, ...]:
    if not isinstance(old, Splice) or not isinstance(new, Splice) or old.at != new.at:
        raise NotEquivalent(
            f"{_when(old)}, {_when(new)}: only what changes at the same times can be equivalent"
        )
    return (
        *check_equivalent(old.old, new.old, assumed=assumed),
        *check_equivalent(old.new, new.new, assumed=assumed),
    )


def _when(plan: Runnable) -> str:
    return f"a query changes at {plan.at}" if isinstance(plan, Splice) else "a query never changes"


def _schema(plan: Runnable) -> StreamSchema:
    return plans_of(plan)[0].query.schema


def _check_schemas(old: StreamSchema, new: StreamSchema) -> None:
    if old.time_unit != new.time_unit:
        raise NotEquivalent(
            f"the time unit is {old.time_unit} in the old plan, {new.time_unit} in the new one"
        )
    if old != new:
        raise NotEquivalent(f"the old plan gives {old}, the new one {new}")


def _check_sources(old: Plan, new: Plan, *, all_of_them: bool) -> None:
    before, after = old.query.sources, new.query.sources
    if all_of_them and set(before) != set(after):
        raise NotEquivalent(
            f"the old plan reads {', '.join(before)}, the new one {', '.join(after)}"
        )
    for name in before.keys() & after.keys():
        if not before[name].alike(after[name]):
            raise NotEquivalent(
                f"source {name!r} is described in two ways: {_described(before[name])} in the old "
                f"plan, {_described(after[name])} in the new one"
            )


def _described(source: nodes.Source) -> str:
    also = "".join(f", {name} {by} before it" for name, by in source.progress)
    return f"{source.schema}, time {source.time}, {source.lateness}{also}"


# -- what is known --------------------------------------------------------------------------------


def _form(plan: Plan) -> int | None:
    """In which form its output is: the length of a step, 0 in normal form; None: not known."""
    if _is_normal(plan.query.root, plan):
        return 0
    p = plan.query.properties
    return p.lasts if p.lasts == p.grain and p.lasts != INF else None


def _is_normal(node: Node, plan: Plan) -> bool:
    if isinstance(node, nodes.Where):  # it takes payloads away, with all of their lives
        return _is_normal(node.input, plan)
    if isinstance(node, nodes.Aggregate):
        return plan.query.derived[node.input].hop is None
    return isinstance(node, _NORMAL)


def _words(form: int) -> str:
    return f"steps of {form}" if form else "normal form"


def _has_key(plan: Runnable) -> bool:
    """Whether no two events of its output share (payload, vs).

    Of what begins at a change all that is alive there starts together: there no two events with one
    payload may be alive at once.
    """
    first, *later = plans_of(plan)
    starts_apart = all(p.query.properties.unique is not None for p in later)
    return starts_apart and all(p.query.properties.key for p in (first, *later))
