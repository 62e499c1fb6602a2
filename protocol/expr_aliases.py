"""Names of expressions' functions elsewhere, and what they are here; see aliases.py."""

from __future__ import annotations

from typing import Any

from gapless.protocol.aliases import under_another_name

SAME = {
    "isin": "is_in",
    "isna": "is_null",
    "isnull": "is_null",
    "notna": "is_valid",
    "notnull": "is_valid",
    "is_not_null": "is_valid",
    "fillna": "fill_null",
    "ifnull": "fill_null",
    "nullif": "null_if",
    "astype": "cast",
    "pow": "power",
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "ceiling": "ceil",
    "truncate": "trunc",
    "isnan": "is_nan",
    "isfinite": "is_finite",
}
_IN_AGGREGATE = "use q.aggregate({name}=gl.{name}(...))"
_INSTEAD = {
    "asc": "use gl.asc(x), in by= of q.top and q.top_k",
    "desc": "use gl.desc(x), in by= of q.top and q.top_k",
    "alias": "name it where it is used, as in q.map(name=...)",
    "name": "name it where it is used, as in q.map(name=...)",
    "as_": "name it where it is used, as in q.map(name=...)",
    "log": "use x.ln(), or x.log10()",
    "mod": "use x % y, or x.remainder(y) with the sign of x",
    "when": "use gl.case((condition, value), otherwise=...)",
    "where": "use gl.if_else(condition, x, otherwise)",
    "apply": "use gl.function(f, 'column', returns='int64')",
    "map_elements": "use gl.function(f, 'column', returns='int64')",
    "coalesce": "use gl.coalesce(x, y)",
    "avg": "use q.aggregate(mean=gl.mean(...))",
    "n_unique": "use q.aggregate(n=gl.count_distinct(...))",
    "nunique": "use q.aggregate(n=gl.count_distinct(...))",
    "over": "use q.window(...).group_by(...).aggregate(...)",
    "len": "use x.str.length(), x.list.length(), or q.aggregate(n=gl.count())",
    "is_between": "use x.between(low, high)",
    **{
        name: f"use x {sign} y"
        for name, sign in {
            "eq": "==",
            "ne": "!=",
            "gt": ">",
            "ge": ">=",
            "lt": "<",
            "le": "<=",
            "and_": "&",
            "or_": "|",
            "add": "+",
            "sub": "-",
            "mul": "*",
            "truediv": "/",
        }.items()
    },
    "not_": "use ~x",
    **{
        name: _IN_AGGREGATE.format(name=name)
        for name in ("sum", "mean", "min", "max", "count", "first", "last", "var", "quantile")
    },
}
OF_TEXT = {
    "startswith": "starts_with",
    "endswith": "ends_with",
    "len": "length",
    "len_chars": "length",
    "strip": "trim",
    "lstrip": "ltrim",
    "rstrip": "rtrim",
    "strip_chars": "trim",
    "to_lowercase": "lower",
    "to_uppercase": "upper",
    "to_titlecase": "title",
    "match": "matches",
    "regexp_matches": "matches",
    "position": "find",
    "index": "find",
    "cat": "concat",
    "pad_start": "lpad",
    "pad_end": "rpad",
    "rjust": "lpad",
    "ljust": "rpad",
    "count_matches": "count",
}
_OF_TEXT_INSTEAD = {
    "substr": "use x.str.slice(start, stop), which counts from 0",
    "substring": "use x.str.slice(start, stop), which counts from 0",
    "zfill": "use x.str.lpad(width, '0')",
    "replace_all": "use x.str.replace(pattern, replacement), or x.str.replace_regex(...)",
    "join": "use x.list.join(separator), or gl.concat(x, y, separator=...)",
    "get": "use x.str.slice(i, i + 1)",
}
OF_DATES = {
    "dayofyear": "day_of_year",
    "ordinal_day": "day_of_year",
    "dayofweek": "weekday",
    "day_of_week": "weekday",
    "isoweek": "week",
    "iso_week": "week",
    "floor": "truncate",
    "trunc": "truncate",
    "to_string": "strftime",
}
_OF_DATES_INSTEAD = {
    "timestamp": "use x.dt.epoch('ms')",
    "days_between": "use x.dt.until(other, 'day')",
    "total_seconds": "cast the duration to int64, which are its ticks",
    "time": "use x.cast('time64[us]')",
}
OF_LISTS = {"len": "length", "size": "length", "element": "get"}


def of_expression(x: Any, name: str) -> Any:
    """What stands for `x.name`, which is not there."""
    instead = _INSTEAD
    if name not in SAME and name not in _INSTEAD and not name.startswith("_"):
        instead = {**_INSTEAD, **_elsewhere(name)}
    return under_another_name(x, "an expression", name, SAME, instead)


def of_text(functions: Any, name: str) -> Any:
    """What stands for `x.str.name`, which is not there."""
    return under_another_name(functions, "x.str", name, OF_TEXT, _OF_TEXT_INSTEAD)


def of_dates(functions: Any, name: str) -> Any:
    """What stands for `x.dt.name`, which is not there."""
    return under_another_name(functions, "x.dt", name, OF_DATES, _OF_DATES_INSTEAD)


def of_lists(functions: Any, name: str) -> Any:
    """What stands for `x.list.name`, which is not there."""
    return under_another_name(functions, "x.list", name, OF_LISTS, {})


def _elsewhere(name: str) -> dict[str, str]:
    """Where the table of functions has it, or another name for it."""
    from gapless.protocol.sql_functions import table  # the table stands on expressions

    places = {
        **{other: f"x.list.{ours}" for other, ours in OF_LISTS.items()},
        **{other: f"x.dt.{ours}" for other, ours in OF_DATES.items()},
        **{other: f"x.str.{ours}" for other, ours in OF_TEXT.items()},
        **{row.name: row.python for row in table()[::-1]},
    }
    return {name: f"use {places[name]}"} if name in places else {}
