"""How much text is read: a longer or deeper one is refused before it costs much.

The parser descends once for each bracket, so what nests without bound would end its stack, and a
text as long as a file would be parsed for minutes. People write neither.
"""

from __future__ import annotations

from sqlglot.tokenizer_core import Token, TokenType

from gapless.sql_queries.places import Text

TEXT_CHARS_MAX = 100_000
"""Characters of one script: 2,000 lines. A word of it is parsed in some microseconds."""
NESTING_MAX = 24
"""Brackets and CASEs within each other: the parser takes some 20 stack frames for each, of 1,000
that Python has."""
TREE_DEPTH_MAX = 150
"""Operators one above the other: `a + b + c` is 2 deep. Expressions themselves hold 64."""

_OPENS = frozenset((TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE))
_CLOSES = frozenset((TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END))


def check_length(text: str) -> None:
    """Refuses a text that is too long, before anything reads it."""
    if len(text) > TEXT_CHARS_MAX:
        raise Text(text[:TEXT_CHARS_MAX]).error(
            f"the text has {len(text)} characters, {TEXT_CHARS_MAX} are the most",
            TEXT_CHARS_MAX - 1,
        )


def check_nesting(tokens: list[Token], text: Text) -> None:
    """Refuses what nests too deeply, before the parser descends into it."""
    depth = 0
    for token in tokens:
        depth += (token.token_type in _OPENS) - (token.token_type in _CLOSES)
        if depth > NESTING_MAX:
            raise too_deep(text, token.start)


def too_long(text: Text, at: int) -> Exception:
    """The error of an expression, or of a union, with too many parts one above the other."""
    return text.error(
        f"more than {TREE_DEPTH_MAX} operators one above the other: say it in several parts, with "
        "WITH or CREATE VIEW",
        at,
    )


def too_deep(text: Text, at: int) -> Exception:
    """The error of a text that nests too deeply."""
    return text.error(
        f"this nests deeper than {NESTING_MAX} levels: give the inner parts names, with WITH or "
        "CREATE VIEW",
        at,
    )
