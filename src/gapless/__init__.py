"""Gapless: a high-availability runtime for continuous queries. Import it as `gl`.

    import gapless as gl

    schema = gl.StreamSchema({"src": "string", "len": "int32"})
    frame = gl.Frame.from_elements(schema, gl.parse("ins((A,7),6,20) stable(11)", schema))
    table = gl.Tdb(schema)
    table.fold(frame)

    flows = gl.source("flows", {"ts": "timestamp[ms]", "src": "string"}, time="ts", lateness="5s")
    query = flows.window(range="10s", slide="1s").group_by("src").aggregate(n=gl.count())
    for frame in gl.execute(query, "flows.parquet"):
        ...

Names are loaded when they are first used: `import gapless` alone costs a few milliseconds.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
    "DetachedInput": "gapless.merge.membership",
    "ChangeError": "gapless.protocol.errors",
    "CheckpointError": "gapless.protocol.errors",
    "DecodeError": "gapless.protocol.errors",
    "ExpressionError": "gapless.protocol.errors",
    "SqlError": "gapless.protocol.errors",
    "FrameError": "gapless.protocol.errors",
    "ParseError": "gapless.protocol.errors",
    "SchemaError": "gapless.protocol.errors",
    "StreamViolation": "gapless.protocol.errors",
    "frames_of": "gapless.protocol.frame",
    "BEGIN": "gapless.protocol.elements",
    "INF": "gapless.protocol.elements",
    "Adjust": "gapless.protocol.elements",
    "Insert": "gapless.protocol.elements",
    "Stable": "gapless.protocol.elements",
    "BadData": "gapless.protocol.errors",
    "Bug": "gapless.protocol.errors",
    "GaplessError": "gapless.protocol.errors",
    "Misuse": "gapless.protocol.errors",
    "Expr": "gapless.protocol.expr",
    "case": "gapless.protocol.conditions",
    "coalesce": "gapless.protocol.conditions",
    "concat": "gapless.protocol.conditions",
    "greatest": "gapless.protocol.conditions",
    "least": "gapless.protocol.conditions",
    "call": "gapless.protocol.expr",
    "col": "gapless.protocol.expr",
    "if_else": "gapless.protocol.expr",
    "lit": "gapless.protocol.expr",
    "Frame": "gapless.protocol.frame",
    "StreamSchema": "gapless.protocol.schema",
    "LMerge": "gapless.merge.lmerge",
    "Policy": "gapless.merge.policy",
    "StreamProperties": "gapless.merge.choose",
    "lag": "gapless.merge.policy",
    "quorum": "gapless.merge.policy",
    "Event": "gapless.protocol.tdb",
    "Tdb": "gapless.protocol.tdb",
    "format": "gapless.protocol.text",
    "parse": "gapless.protocol.text",
    "DiskFull": "gapless.protocol.errors",
    "Fenced": "gapless.protocol.errors",
    "JobError": "gapless.protocol.errors",
    "JournalError": "gapless.protocol.errors",
    "NotEquivalent": "gapless.protocol.errors",
    "TokenError": "gapless.protocol.errors",
    "Trimmed": "gapless.protocol.errors",
    "Job": "gapless.actors.handle",
    "Output": "gapless.actors.outputs",
    "output": "gapless.actors.outputs",
    "Subscription": "gapless.actors.subscription",
    "attach": "gapless.actors.handle",
    "launch": "gapless.actors.launch",
    "resume": "gapless.actors.launch",
    "JournalReader": "gapless.io.journal_handles",
    "JournalWriter": "gapless.io.journal_handles",
    "Execution": "gapless.embedded",
    "execute": "gapless.embedded",
    "table": "gapless.embedded",
    "Plan": "gapless.engine.plan",
    "Query": "gapless.engine.query",
    "source": "gapless.engine.source",
    "race": "gapless.engine.query",
    "sql": "gapless.sql_queries.script",
    "rows": "gapless.engine.row_counts",
    "function": "gapless.engine.functions",
    "ordered": "gapless.engine.lateness",
    "k_late": "gapless.engine.lateness",
    "watermarks": "gapless.engine.lateness",
    "Punctuation": "gapless.protocol.punctuation",
    "RowError": "gapless.protocol.errors",
    "MemoryLimit": "gapless.protocol.errors",
    "count": "gapless.operators.aggregates",
    "arg_max": "gapless.operators.aggregates",
    "arg_min": "gapless.operators.aggregates",
    "array_agg": "gapless.operators.aggregates",
    "bool_and": "gapless.operators.aggregates",
    "bool_or": "gapless.operators.aggregates",
    "mode": "gapless.operators.aggregates",
    "stddev": "gapless.operators.aggregates",
    "string_agg": "gapless.operators.aggregates",
    "mean": "gapless.operators.aggregates",
    "var": "gapless.operators.aggregates",
    "window_end": "gapless.operators.aggregates",
    "window_start": "gapless.operators.aggregates",
    "window_time": "gapless.operators.aggregates",
    "sum": "gapless.operators.aggregates:sum_",
    "two_level": "gapless.operators.two_level",
    "aggregate": "gapless.operators.aggregates",
    "count_distinct": "gapless.operators.aggregates",
    "asc": "gapless.operators.rank_keys",
    "desc": "gapless.operators.rank_keys",
    "first": "gapless.operators.aggregates",
    "last": "gapless.operators.aggregates",
    "quantile": "gapless.operators.aggregates",
    "min": "gapless.operators.aggregates:min_",
    "max": "gapless.operators.aggregates:max_",
}
"""Every public name, and the module that it comes from; behind a colon its name there."""

_INSTEAD = {
    "avg": "use gl.mean",
    "when": "use gl.case((condition, value), otherwise=...)",
    "where": "use gl.if_else(condition, then, otherwise)",
    "literal": "use gl.lit",
    "std": "use gl.stddev",
    "median": "use gl.quantile(column, 0.5)",
    "collect_list": "use gl.array_agg",
    "interval": "use gl.lit(datetime.timedelta(minutes=5))",
    "tumble": "use q.window(range='5m', slide='5m')",
    "hop": "use q.window(range='10m', slide='1m')",
    "session": "use q.window(session='30s', partition_by=...)",
    "col_": "use gl.col",
    "column": "use gl.col",
    "udf": "use gl.function(f, 'column', returns='int64')",
    "n_unique": "use gl.count_distinct",
    "read_csv": "name a file when the query runs, as in gl.execute(query, 'rows.csv')",
    "read_parquet": "name a file when the query runs, as in gl.execute(query, 'rows.parquet')",
}
"""Names that people know from elsewhere, and what to write here."""

if TYPE_CHECKING:
    __version__: str
    from gapless.actors.handle import Job, attach
    from gapless.actors.launch import launch, resume
    from gapless.actors.outputs import Output, output
    from gapless.actors.subscription import Subscription
    from gapless.embedded import Execution, execute, table
    from gapless.engine.functions import function
    from gapless.engine.lateness import k_late, ordered, watermarks
    from gapless.engine.plan import Plan
    from gapless.engine.query import Query, race
    from gapless.engine.row_counts import rows
    from gapless.engine.source import source
    from gapless.io.journal_handles import JournalReader, JournalWriter
    from gapless.merge.choose import StreamProperties
    from gapless.merge.lmerge import LMerge
    from gapless.merge.membership import DetachedInput
    from gapless.merge.policy import Policy, lag, quorum
    from gapless.operators.aggregates import (
        aggregate,
        arg_max,
        arg_min,
        array_agg,
        bool_and,
        bool_or,
        count,
        count_distinct,
        first,
        last,
        mean,
        mode,
        quantile,
        stddev,
        string_agg,
        var,
        window_end,
        window_start,
        window_time,
    )
    from gapless.operators.aggregates import max_ as max
    from gapless.operators.aggregates import min_ as min
    from gapless.operators.aggregates import sum_ as sum
    from gapless.operators.rank_keys import asc, desc
    from gapless.operators.two_level import two_level
    from gapless.protocol.conditions import case, coalesce, concat, greatest, least
    from gapless.protocol.elements import BEGIN, INF, Adjust, Insert, Stable
    from gapless.protocol.errors import (
        BadData,
        Bug,
        ChangeError,
        CheckpointError,
        DecodeError,
        DiskFull,
        ExpressionError,
        Fenced,
        FrameError,
        GaplessError,
        JobError,
        JournalError,
        MemoryLimit,
        Misuse,
        NotEquivalent,
        ParseError,
        RowError,
        SchemaError,
        SqlError,
        StreamViolation,
        TokenError,
        Trimmed,
    )
    from gapless.protocol.expr import Expr, call, col, if_else, lit
    from gapless.protocol.frame import Frame, frames_of
    from gapless.protocol.punctuation import Punctuation
    from gapless.protocol.schema import StreamSchema
    from gapless.protocol.tdb import Event, Tdb
    from gapless.protocol.text import format, parse
    from gapless.sql_queries.script import sql

__all__ = [
    "BEGIN",
    "INF",
    "Adjust",
    "BadData",
    "Bug",
    "ChangeError",
    "CheckpointError",
    "DecodeError",
    "DetachedInput",
    "DiskFull",
    "Event",
    "Execution",
    "Expr",
    "ExpressionError",
    "Fenced",
    "Frame",
    "FrameError",
    "GaplessError",
    "Insert",
    "Job",
    "JobError",
    "JournalError",
    "JournalReader",
    "JournalWriter",
    "LMerge",
    "MemoryLimit",
    "Misuse",
    "NotEquivalent",
    "Output",
    "ParseError",
    "Plan",
    "Policy",
    "Punctuation",
    "Query",
    "RowError",
    "SchemaError",
    "SqlError",
    "Stable",
    "StreamProperties",
    "StreamSchema",
    "StreamViolation",
    "Subscription",
    "Tdb",
    "TokenError",
    "Trimmed",
    "aggregate",
    "arg_max",
    "arg_min",
    "array_agg",
    "asc",
    "attach",
    "bool_and",
    "bool_or",
    "call",
    "case",
    "coalesce",
    "col",
    "concat",
    "count",
    "count_distinct",
    "desc",
    "execute",
    "first",
    "format",
    "frames_of",
    "function",
    "greatest",
    "if_else",
    "k_late",
    "lag",
    "last",
    "launch",
    "least",
    "lit",
    "max",
    "mean",
    "min",
    "mode",
    "ordered",
    "output",
    "parse",
    "quantile",
    "quorum",
    "race",
    "resume",
    "rows",
    "source",
    "sql",
    "stddev",
    "string_agg",
    "sum",
    "table",
    "two_level",
    "var",
    "watermarks",
    "window_end",
    "window_start",
    "window_time",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # takes longer than all else of `import gapless`

        return version(__name__)
    home = _HOMES.get(name)
    if home is None:
        from gapless.protocol.aliases import under_another_name

        package = import_module(__name__)
        return under_another_name(package, "gapless", name, {}, _INSTEAD)
    module, _, own = home.partition(":")
    value = getattr(import_module(module), own or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
