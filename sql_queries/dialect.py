"""The dialect: sqlglot's `risingwave`, which knows WATERMARK, with our parser and a few words.

A text is never rewritten: what stock dialects cannot parse (the window clause, Flink's table
functions, `FROM a UNION b`) is grammar here, so every place in an error is a place in the text.
"""

from __future__ import annotations

from typing import ClassVar

import sqlglot.errors
from sqlglot import exp
from sqlglot.dialects.risingwave import RisingWave
from sqlglot.tokenizer_core import TokenType

from gapless.sql_queries.limits import (
    TREE_DEPTH_MAX,
    check_length,
    check_nesting,
    too_deep,
    too_long,
)
from gapless.sql_queries.parser import SqlParser, place_of
from gapless.sql_queries.places import Text, start_of


class Gapless(RisingWave):
    """Our dialect."""

    NULL_ORDERING = "nulls_are_last"
    SUPPORTS_ORDER_BY_ALL = False

    class Tokenizer(RisingWave.Tokenizer):
        """Words: EXPLAIN is a statement, and the thesis writes a union as a sign."""

        KEYWORDS: ClassVar = {
            **RisingWave.Tokenizer.KEYWORDS,
            "EXPLAIN": TokenType.DESCRIBE,
            "∪": TokenType.UNION,  # noqa: RUF001  # the sign that the thesis writes
        }
        COMMANDS: ClassVar = set()

    Parser = SqlParser


def parse(script: str) -> tuple[list[exp.Expr], Text]:
    """The statements of a script. Raises `SqlError` with the place."""
    check_length(script)
    text = Text(script)
    try:
        tokens = Gapless().tokenize(script)
    except sqlglot.errors.TokenError as e:
        raise text.error("a quote or a comment has no end", e.start or 0) from None
    check_nesting(tokens, text)
    try:
        found = SqlParser(dialect=Gapless()).parse(tokens, script)
    except sqlglot.errors.ParseError as e:
        raise text.error(str(e.errors[0]["description"]), place_of(e)) from None
    except RecursionError:
        raise too_deep(text, tokens[-1].start) from None
    statements = [statement for statement in found if statement is not None]
    for statement in statements:
        _check_depth(statement, text)
    return statements, text


def _check_depth(statement: exp.Expr, text: Text) -> None:
    """Refuses a tree that is too deep to be walked by recursion."""
    level = [statement]
    for _ in range(TREE_DEPTH_MAX):
        level = [child for node in level for child in node.iter_expressions()]
        if not level:
            return
    raise too_long(text, start_of(level[0]))
