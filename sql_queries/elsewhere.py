"""What other dialects have, and what to write here in its place."""

from __future__ import annotations

from sqlglot import exp

CLOCK = "a query has no clock, for replicas would read different times: compare with a column"

ELSEWHERE: dict[type[exp.Expr], str] = {
    exp.Subquery: "a subquery stands in FROM: join it, or give it a name with WITH",
    exp.Select: "a subquery stands in FROM: join it, or give it a name with WITH",
    exp.Exists: "EXISTS is not supported: write x IN (SELECT y FROM t [RANGE 1 hour]), or join",
    exp.WithinGroup: "WITHIN GROUP is not supported: write exact_quantile(x, 0.5)",
    exp.Window: "OVER stands in a select list: filter by it in a query around this one",
    exp.Filter: "FILTER belongs to an aggregate",
    **dict.fromkeys(
        (exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime, exp.Localtimestamp, exp.Localtime),
        CLOCK,
    ),
    **dict.fromkeys((exp.Placeholder, exp.Parameter), "there are no parameters: write the value"),
    exp.Tuple: "a row of values is none itself: write x = 1 AND y = 2, or a column each",
    exp.AtTimeZone: "times are in UTC, or in the zone of their type: leave AT TIME ZONE out",
    exp.SimilarTo: "SIMILAR TO is not supported: write x LIKE pattern, or x ~ regular expression",
    exp.BitwiseXor: "write xor(x, y)",
    exp.HexString: "a number is written in decimal digits",
    exp.IntDiv: "write floor(x / y)",
    exp.Bracket: "write list_extract(x, 1), or substring(x, 1, 1) of a text",
    exp.Array: "lists are made by array_agg(x), and read by list_contains(x, 1) and the like",
    **dict.fromkeys(
        (exp.JSONExtract, exp.JSONExtractScalar), "a JSON text is taken apart before it comes"
    ),
    exp.Star: "* stands alone in a select list, or in count(*)",
}

_IN_FROM = (
    "a window stands in FROM, as in FROM TUMBLE(flows, ts, INTERVAL '1' MINUTE), and "
    "window_start, window_end in GROUP BY"
)
FUNCTIONS_ELSEWHERE = {
    **dict.fromkeys(("tumble", "hop", "session", "cumulate", "time_bucket"), _IN_FROM),
    **{
        f"{window}_{end}": _IN_FROM
        for window in ("tumble", "hop", "session")
        for end in ("start", "end", "rowtime", "proctime")
    },
    **dict.fromkeys(("now", "getdate", "proctime", "localtimestamp", "today"), CLOCK),
    **dict.fromkeys(
        ("random", "rand", "uuid", "gen_random_uuid", "setseed"),
        "replicas would draw different ones: compute with the columns",
    ),
    **dict.fromkeys(("if", "iff", "decode"), "write CASE WHEN condition THEN x ELSE y END"),
    "nvl": "write COALESCE(x, y)",
    "median": "write exact_quantile(x, 0.5)",
    "percentile_cont": "write exact_quantile(x, 0.5)",
    **dict.fromkeys(
        ("to_char", "strftime", "date_format"),
        "cast the time to VARCHAR, or take parts of it with EXTRACT",
    ),
    **dict.fromkeys(("date_part", "datepart"), "write EXTRACT(hour FROM ts)"),
    **dict.fromkeys(("date_add", "dateadd", "date_sub"), "write ts + INTERVAL '1' DAY"),
    "window": _IN_FROM,
    **dict.fromkeys(
        ("quantile_cont", "quantile", "quantile_disc", "percentile_disc"),
        "write exact_quantile(x, 0.5)",
    ),
    **dict.fromkeys(
        ("countif", "count_if", "sumif"), "write count(*) FILTER (WHERE condition), or sum(x) so"
    ),
    "row_number": "write ROW_NUMBER() OVER (PARTITION BY .. ORDER BY ..) AS r, and keep r <= 3",
}
"""Functions of other dialects, and what to write here."""
