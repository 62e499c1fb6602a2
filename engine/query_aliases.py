"""Names of queries' steps elsewhere, and what they are here; see protocol/aliases.py."""

from __future__ import annotations

from typing import Any

from gapless.protocol.aliases import under_another_name

_NO_ORDER = "a stream has no order of rows: use q.top_k(k, by=...)"
_NO_FIRST = "a stream has no first rows: use q.top_k(k, by=...)"
_RUN = (
    "a query is a description: use gl.execute(q, inputs), gl.table(q, inputs) or gl.launch(q, ...)"
)
_AGGREGATE = "use q.aggregate({name}=gl.{name}(...)), behind q.window(...)"
SAME = {
    "filter": "where",
    "with_columns": "map",
    "assign": "map",
    "mutate": "map",
    "groupby": "group_by",
    "agg": "aggregate",
    "unique": "distinct",
    "normalize": "normalise",
    "union_all": "union",
}
OF_GROUPS = {"agg": "aggregate"}
"""Names of grouped rows' that work."""
_INSTEAD = {
    "with_column": "use q.map(name=expression)",
    "withColumn": "use q.map(name=expression)",
    "withColumns": "use q.map(name=expression)",
    "rename": "use q.select('a', new=gl.col('old')), which names the columns that stay",
    "drop": "use q.select('a', 'b'), which names the columns that stay",
    "limit": _NO_FIRST,
    "head": _NO_FIRST,
    "take": _NO_FIRST,
    "tail": _NO_FIRST,
    "sort": _NO_ORDER,
    "sort_values": _NO_ORDER,
    "sort_by": _NO_ORDER,
    "order_by": _NO_ORDER,
    "orderBy": _NO_ORDER,
    "having": "use .where(...) behind the aggregate",
    **dict.fromkeys(("tumble", "tumbling"), "use q.window(range='5m', slide='5m')"),
    **dict.fromkeys(("hop", "hopping", "sliding"), "use q.window(range='10m', slide='1m')"),
    "session": "use q.window(session='30s', partition_by=...)",
    "explode": "flatten lists before the query reads them",
    "over": "use q.window(...).group_by(...).aggregate(...)",
    "rolling": "use q.window(range=..., slide=...)",
    "resample": "use q.window(range=..., slide=...)",
    **dict.fromkeys(("join_asof", "merge_asof"), "use q.followed_by(other, on=...)"),
    "merge": "use q.join(other, on=...)",
    "concat": "use q.union(other)",
    "subtract": "use q.difference(other)",
    "except_": "use q.difference(other)",
    "drop_duplicates": "use q.distinct('a', 'b')",
    "fillna": "use q.map(a=gl.col('a').fill_null(0))",
    "dropna": "use q.where(gl.col('a').is_valid())",
    "columns": "use q.schema.names",
    "dtypes": "use q.schema.payload",
    "cast": "use q.map(a=gl.col('a').cast('int64'))",
    **dict.fromkeys(("collect", "show", "run", "execute", "to_pandas", "to_arrow"), _RUN),
    **{
        name: _AGGREGATE.format(name=name)
        for name in ("sum", "mean", "min", "max", "count", "first", "last", "var", "quantile")
    },
    "avg": _AGGREGATE.format(name="mean"),
    "size": _AGGREGATE.format(name="count"),
}
_GROUPED = {
    name: f"use .aggregate({name}=gl.{name}(...))"
    for name in ("sum", "mean", "min", "max", "count", "first", "last", "var", "quantile")
} | {"avg": "use .aggregate(mean=gl.mean(...))", "size": "use .aggregate(n=gl.count())"}


def of_query(query: Any, name: str) -> Any:
    """What stands for `query.name`, which is not there."""
    return under_another_name(query, "a query", name, SAME, _INSTEAD)


def of_groups(groups: Any, name: str) -> Any:
    """What stands for `groups.name`, which is not there."""
    return under_another_name(groups, "a grouped query", name, OF_GROUPS, _GROUPED)
