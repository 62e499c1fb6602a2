"""Whether a query can be cut into shards, each of which answers for its partitions alone.

    partitions 0 1 2 3, key src        shard 0 reads 0 and 2, shard 1 reads 1 and 3

    group_by("src")                    right: all rows of one src are in one shard
    group_by("src", "dst")             right: so are those of one (src, dst)
    group_by("dst")                    refused: both shards would answer for the same dst

Rows that share the partition key share a shard. So a step that looks at several rows is right in
shards where rows that it looks at together are equal in the key: a group has the key among its
columns, a join has it among its pairs, rows that are compared whole still hold it. Steps that look
at one row at a time are right always. `check_shards` walks over the plan with the columns that
still hold the key, under whatever name a `select` has given them:

    source flows       key ({src})              a set of columns for each column of the key
    select(a=src)      key ({a})
    select(b=src+1)    key ({})                 lost: computed of it, and no more it
    join on a = src    key ({a})

An answer put together of shards is then the answer of the whole, event by event.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from gapless.engine import nodes
from gapless.engine.documents import kind_of
from gapless.engine.nodes import Node
from gapless.engine.plan import Plan
from gapless.engine.splice import Runnable, plans_of
from gapless.journal.layout import Layout
from gapless.operators.join_columns import JoinColumns
from gapless.protocol.errors import Misuse
from gapless.protocol.expr import Column

Held = tuple[frozenset[str], ...]
"""For each column of the partition key, the columns of an output that are equal to it."""


def check_shards(plan: Runnable, layouts: Mapping[str, Layout], shards: int) -> None:
    """Raises `Misuse` where the answers of so many shards would not be the answer.

    `layouts`: of the journal of each source that the plan reads.
    """
    if type(shards) is not int or shards <= 1:
        return  # what is no number of shards is said where they are desired
    _check_layouts(layouts, shards)
    for each in plans_of(plan):
        _Walk(each, layouts, shards).check()


def _check_layouts(layouts: Mapping[str, Layout], shards: int) -> None:
    """Raises unless the partitions of all sources can be dealt to the shards alike."""
    (first, layout), *others = layouts.items()
    for name, other in layouts.items():
        if other.partitions < shards:
            raise Misuse(
                f"shards={shards}: the journal of source {name} has {other.partitions} "
                f"partition{'s' if other.partitions > 1 else ''}, and each shard reads one at "
                f"least: prepare it with {shards} or more, by a key, or take fewer shards"
            )
    for name, other in others:
        if other.partitions != layout.partitions:
            raise Misuse(
                f"shards={shards}: the journal of source {first} has {layout.partitions} "
                f"partitions, that of {name} {other.partitions}: rows that belong together would "
                "be in different shards; prepare them with one number of partitions, or take "
                "shards=1"
            )
        if len(other.key) != len(layout.key):
            raise Misuse(
                f"shards={shards}: the journal of source {first} is partitioned by "
                f"({_listed(layout.key)}), that of {name} by ({_listed(other.key)}): prepare them "
                "by one key, or take shards=1"
            )


class _Walk:
    """One plan, from its sources up."""

    def __init__(self, plan: Plan, layouts: Mapping[str, Layout], shards: int) -> None:
        self._root = plan.query.root
        self._layouts = layouts
        self._shards = shards
        self._held: dict[Node, Held] = {}
        self._keys: dict[Node, tuple[str, ...]] = {}  # what the key was called at a source below

    def check(self) -> None:
        for node in nodes.walk(self._root):
            self._keys[node] = self._key_of(node)
            self._held[node] = self._through(node)

    def _key_of(self, node: Node) -> tuple[str, ...]:
        if isinstance(node, nodes.Source):
            return self._layouts[node.name].key
        return self._keys[node.inputs[0]]

    def _through(self, node: Node) -> Held:
        """The columns of a node's output that hold the key; raises where it cannot be sharded."""
        match node:
            case nodes.Source():
                names = node.schema.names
                return tuple(frozenset({k} & {*names}) for k in self._layouts[node.name].key)
            case nodes.Select():
                return self._renamed(node)
            case nodes.Aggregate():
                what = f"aggregate {_listed(name for name, _ in node.aggregates)}"
                return self._within(node, what, node.group_by, "group by")
            case nodes.TopK() | nodes.Top():
                self._within(node, f"{kind_of(node)} {node.k}", node.within, "put within=")
            case nodes.Session() | nodes.RowWindow() | nodes.LatestRows():
                what = "a session" if isinstance(node, nodes.Session) else str(node)
                self._within(node, what, node.partition_by, "put partition_by=")
            case nodes.LatestBy() | nodes.Dedupe():
                self._within(node, f"{kind_of(node)} {_listed(node.key)}", node.key, "name")
            case nodes.Distinct() | nodes.Normalise():
                self._whole(node, kind_of(node))
            case nodes.Heavy() | nodes.SketchedHeavy():
                self._within(node, "heavy, a share", (), "")
            case nodes.Join() | nodes.FollowedBy():
                return self._joined(node)
            case nodes.Union() | nodes.Race():
                return _common(self._held[each] for each in node.inputs)
            case nodes.Difference():
                return self._subtracted(node)
        return self._held[node.inputs[0]]

    # -- steps that look at one row -----------------------------------------------------------

    def _renamed(self, node: nodes.Select) -> Held:
        below = self._held[node.input]
        return tuple(
            frozenset(name for name, c in node.columns if isinstance(c, Column) and c.name in held)
            for held in below
        )

    # -- steps that look at several -----------------------------------------------------------

    def _within(self, node: Node, what: str, columns: Collection[str], how: str) -> Held:
        """Rows are looked at together that are equal in these columns."""
        (below,) = (self._held[each] for each in node.inputs)
        inside = tuple(held & {*columns} for held in below)
        for key, held, at in zip(self._keys[node], below, inside, strict=True):
            if not at:
                by = f"by ({_listed(columns)})" if columns else "of all rows"
                raise self._refused(f"{what} {by}", key, held, f"{how} {_one(held)} as well")
        return inside

    def _whole(self, node: Node, what: str) -> None:
        """Rows are looked at together that are equal in all columns."""
        for key, held in zip(self._keys[node], self._held[node.inputs[0]], strict=True):
            if not held:
                raise self._refused(what, key, held, "")

    def _subtracted(self, node: nodes.Difference) -> Held:
        left, right = self._held[node.left], self._held[node.right]
        for key, mine, common in zip(self._keys[node], left, _common((left, right)), strict=True):
            if not common:
                advice = "select it under one name on both sides"
                raise self._refused("difference", key, mine, advice)
        return left

    def _joined(self, node: nodes.Join | nodes.FollowedBy) -> Held:
        how = node.how if isinstance(node, nodes.Join) else "inner"
        left, right = self._held[node.left], self._held[node.right]
        made = JoinColumns(node.left.schema, node.right.schema, node.on, how)
        found = []
        for i, (mine, theirs) in enumerate(zip(left, right, strict=True)):
            pairs = {a for a, b in node.on if a in mine and b in theirs}
            if not pairs:
                on = _listed(f"{a} = {b}" for a, b in node.on)
                raise self._refused(
                    f"{kind_of(node)} on {on}" if on else f"{kind_of(node)} without on=",
                    self._keys[node][i],
                    mine if not mine or theirs else theirs,
                    f"join on {_one(mine)} = {_one(theirs)} as well",
                )
            # A side that may be missing has nulls in its own columns; those of `on` never do so.
            held = set(pairs)
            if how in ("inner", "left"):
                held |= {made.names[0][name] for name in mine}
            if how in ("inner", "right"):
                held |= {made.names[1][name] for name in theirs}
            found.append(frozenset(held))
        return tuple(found)

    def _refused(self, what: str, key: str, held: frozenset[str], advice: str) -> Misuse:
        if not held:
            advice = f"no column holds it there: declare {key} at the source, select it as it is"
        return Misuse(
            f"shards={self._shards}: {what} puts rows together that are in different shards, as "
            f"it does not keep apart by {key}, the key that the journal is partitioned by: "
            f"{advice}; or prepare the journal by another key, or take shards=1"
        )


def _common(held: Iterable[Held]) -> Held:
    """What all inputs hold in columns of the same name."""
    return tuple(frozenset.intersection(*each) for each in zip(*held, strict=True))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


def _one(held: Collection[str]) -> str:
    return min(held, default="it")
