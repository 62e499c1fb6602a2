"""Functions of text: `col("name").str.lower()`.

Text is Unicode: lengths and places count code points, and the first place is 0, as in Python. What
SQL counts from 1 is translated (sql_functions.py).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from gapless.protocol.conditions import coalesce
from gapless.protocol.errors import ExpressionError
from gapless.protocol.expr import Expr, call
from gapless.protocol.expr_aliases import of_text
from gapless.protocol.function_table import Spelling, listed

_text = partial(listed, "str")


def _substring(x: Expr, start: int, length: int | None = None) -> Expr:
    """SQL's: counts from 1, from the end where `start` is negative."""
    if length is not None and length < 0:
        raise ExpressionError(f"SUBSTRING: a length of {length}: give 0 or more")
    if start > 0:
        return x.str.slice(start - 1, None if length is None else start - 1 + length)
    if start == 0:  # the place before the first
        return x.str.slice(0, None if length is None else max(length - 1, 0))
    stop = None if length is None else start + length
    return x.str.slice(start, stop if stop is not None and stop < 0 else None)


def _regexp_replace(x: Expr, pattern: str, replacement: str, flags: str = "") -> Expr:
    if flags not in ("", "g"):
        raise ExpressionError(f"REGEXP_REPLACE: flags {flags!r}: only 'g', all matches, is known")
    return x.str.replace_regex(pattern, replacement, -1 if flags else 1)


def _split_part(x: Expr, separator: str, place: int) -> Expr:
    if place == 0:
        return x.str.slice(0, 0)
    part = x.str.split(separator).list.get(place - 1 if place > 0 else place)
    return coalesce(part, x.str.slice(0, 0))


class TextFunctions:
    """What an expression's `str` has."""

    __slots__ = ("_x",)

    def __init__(self, x: Expr) -> None:
        self._x = x

    if not TYPE_CHECKING:  # a type checker is to find such a name

        def __getattr__(self, name: str) -> Any:
            return of_text(self, name)

    # -- looking for something ----------------------------------------------------------------

    @_text("match_substring", "text -> bool", "CONTAINS(x, pattern)")
    def contains(self, pattern: str, ignore_case: bool = False) -> Expr:
        """Whether `pattern` is in the text."""
        return call("match_substring", self._x, pattern=pattern, ignore_case=ignore_case)

    @_text("starts_with", "text -> bool", "STARTS_WITH(x, pattern)", "PREFIX(x, pattern)")
    def starts_with(self, pattern: str, ignore_case: bool = False) -> Expr:
        """Whether the text begins with `pattern`."""
        return call("starts_with", self._x, pattern=pattern, ignore_case=ignore_case)

    @_text("ends_with", "text -> bool", "ENDS_WITH(x, pattern)", "SUFFIX(x, pattern)")
    def ends_with(self, pattern: str, ignore_case: bool = False) -> Expr:
        """Whether the text ends with `pattern`."""
        return call("ends_with", self._x, pattern=pattern, ignore_case=ignore_case)

    @_text(
        "match_like",
        "text -> bool",
        "x LIKE pattern",
        note="A backslash before `%` or `_` stands for the character, as in PostgreSQL.",
    )
    def like(self, pattern: str, ignore_case: bool = False) -> Expr:
        """Whether all of the text is like `pattern`: `%` is any text, `_` one character."""
        return call("match_like", self._x, pattern=pattern, ignore_case=ignore_case)

    @_text(
        "match_like",
        "text -> bool",
        Spelling("x ILIKE pattern", lambda x, pattern: x.str.ilike(pattern)),
        note="As `like`.",
    )
    def ilike(self, pattern: str) -> Expr:
        """`like`, without regard to case."""
        return self.like(pattern, ignore_case=True)

    @_text("match_substring_regex", "text -> bool", "REGEXP_MATCHES(x, pattern)")
    def matches(self, pattern: str, ignore_case: bool = False) -> Expr:
        """Whether a part of the text matches the regular expression (RE2)."""
        return call("match_substring_regex", self._x, pattern=pattern, ignore_case=ignore_case)

    @_text(
        "(utf8_find)",
        "text -> int64",
        Spelling("STRPOS(x, pattern)", lambda x, pattern: x.str.find(pattern) + 1),
        Spelling("INSTR(x, pattern)", lambda x, pattern: x.str.find(pattern) + 1),
        Spelling("POSITION(pattern IN x)", lambda pattern, x: x.str.find(pattern) + 1),
    )
    def find(self, pattern: str) -> Expr:
        """Where `pattern` first begins; -1 where it is not (SQL: from 1, and 0)."""
        return call("utf8_find", self._x, pattern=pattern)

    @_text("count_substring", "text -> int32")
    def count(self, pattern: str, ignore_case: bool = False) -> Expr:
        """How often `pattern` is in the text, without overlap."""
        return call("count_substring", self._x, pattern=pattern, ignore_case=ignore_case)

    # -- the whole text -----------------------------------------------------------------------

    @_text("utf8_length", "text -> int32", "LENGTH(x)", "CHAR_LENGTH(x)", "CHARACTER_LENGTH(x)")
    def length(self) -> Expr:
        """How many code points the text has."""
        return call("utf8_length", self._x)

    @_text("utf8_lower", "text -> text", "LOWER(x)", "LCASE(x)")
    def lower(self) -> Expr:
        """The text in small letters."""
        return call("utf8_lower", self._x)

    @_text("utf8_upper", "text -> text", "UPPER(x)", "UCASE(x)")
    def upper(self) -> Expr:
        """The text in capitals."""
        return call("utf8_upper", self._x)

    @_text("utf8_capitalize", "text -> text")
    def capitalize(self) -> Expr:
        """The text with its first letter a capital, and the others small."""
        return call("utf8_capitalize", self._x)

    @_text("utf8_title", "text -> text")
    def title(self) -> Expr:
        """The text with the first letter of each word a capital, and the others small."""
        return call("utf8_title", self._x)

    @_text(
        "utf8_reverse",
        "text -> text",
        "REVERSE(x)",
        note="By code points; DuckDB keeps the parts of one drawn character together.",
    )
    def reverse(self) -> Expr:
        """The code points from the last to the first."""
        return call("utf8_reverse", self._x)

    @_text(
        "utf8_trim_whitespace, utf8_trim",
        "text -> text",
        Spelling("TRIM(x[, characters])", lambda x, characters=" ": x.str.trim(characters)),
        Spelling("BTRIM(x[, characters])", lambda x, characters=" ": x.str.trim(characters)),
        note="SQL without `characters` trims spaces; DuckDB all that Unicode calls a space.",
    )
    def trim(self, characters: str | None = None) -> Expr:
        """The text without these characters at both ends; None: whitespace."""
        return self._trimmed("trim", characters)

    @_text(
        "utf8_ltrim_whitespace, utf8_ltrim",
        "text -> text",
        Spelling("LTRIM(x[, characters])", lambda x, characters=" ": x.str.ltrim(characters)),
        note="As `trim`.",
    )
    def ltrim(self, characters: str | None = None) -> Expr:
        """The text without these characters at its beginning; None: whitespace."""
        return self._trimmed("ltrim", characters)

    @_text(
        "utf8_rtrim_whitespace, utf8_rtrim",
        "text -> text",
        Spelling("RTRIM(x[, characters])", lambda x, characters=" ": x.str.rtrim(characters)),
        note="As `trim`.",
    )
    def rtrim(self, characters: str | None = None) -> Expr:
        """The text without these characters at its end; None: whitespace."""
        return self._trimmed("rtrim", characters)

    def _trimmed(self, how: str, characters: str | None) -> Expr:
        if characters is None:
            return call(f"utf8_{how}_whitespace", self._x)
        return call(f"utf8_{how}", self._x, characters=characters)

    # -- parts --------------------------------------------------------------------------------

    @_text(
        "utf8_slice_codeunits",
        "text -> text",
        Spelling("SUBSTRING(x, start[, length])", _substring),
        Spelling("SUBSTR(x, start[, length])", _substring),
        note="SQL counts from 1. A negative length is refused.",
    )
    def slice(self, start: int, stop: int | None = None) -> Expr:
        """The code points from place `start` up to `stop`, as Python's `text[start:stop]`."""
        return call("utf8_slice_codeunits", self._x, start=start, stop=stop)

    @_text("utf8_slice_codeunits", "text -> text", "LEFT(x, n)")
    def left(self, n: int) -> Expr:
        """The first n code points; of a negative n, all but the last -n."""
        return self.slice(0, n)

    @_text("utf8_slice_codeunits", "text -> text", "RIGHT(x, n)")
    def right(self, n: int) -> Expr:
        """The last n code points; of a negative n, all but the first -n."""
        return self.slice(-n) if n else self.slice(0, 0)

    @_text(
        "split_pattern",
        "text -> list of text",
        "SPLIT(x, pattern)",
        "STRING_SPLIT(x, pattern)",
        Spelling("SPLIT_PART(x, separator, place)", _split_part),
        note="An empty pattern is refused.",
    )
    def split(self, pattern: str) -> Expr:
        """The parts between the places where `pattern` is."""
        return call("split_pattern", self._x, pattern=pattern)

    @_text(
        "extract_regex (utf8_extract)",
        "text -> text",
        "REGEXP_EXTRACT(x, pattern[, group])",
        note="Null where nothing matches; DuckDB gives an empty text.",
    )
    def extract(self, pattern: str, group: int = 0) -> Expr:
        """What the regular expression (RE2) matches first, or a group of it; null: no match."""
        return call("utf8_extract", self._x, pattern=pattern, group=group)

    # -- other texts --------------------------------------------------------------------------

    @_text(
        "replace_substring",
        "text -> text",
        "REPLACE(x, pattern, replacement)",
        note="An empty pattern is refused.",
    )
    def replace(self, pattern: str, replacement: str) -> Expr:
        """The text with `replacement` in place of each `pattern`."""
        return call("replace_substring", self._x, pattern=pattern, replacement=replacement)

    @_text(
        "replace_substring_regex",
        "text -> text",
        Spelling("REGEXP_REPLACE(x, pattern, replacement[, flags])", _regexp_replace),
        note="SQL replaces the first match, or with 'g' all of them.",
    )
    def replace_regex(self, pattern: str, replacement: str, max_replacements: int = -1) -> Expr:
        r"""The text with `replacement` (`\1` is a group) in place of each match (RE2)."""
        return call(
            "replace_substring_regex",
            self._x,
            pattern=pattern,
            replacement=replacement,
            max_replacements=max_replacements,
        )

    @_text(
        "utf8_lpad",
        "text -> text",
        Spelling("LPAD(x, width, padding)", lambda x, w, p: x.str.lpad(w, p).str.left(w)),
        note="SQL cuts what is longer. The padding is one character.",
    )
    def lpad(self, width: int, padding: str = " ") -> Expr:
        """The text with padding before it, up to this many code points."""
        return call("utf8_lpad", self._x, width=width, padding=padding)

    @_text(
        "utf8_rpad",
        "text -> text",
        Spelling("RPAD(x, width, padding)", lambda x, w, p: x.str.rpad(w, p).str.left(w)),
        note="As `lpad`.",
    )
    def rpad(self, width: int, padding: str = " ") -> Expr:
        """The text with padding behind it, up to this many code points."""
        return call("utf8_rpad", self._x, width=width, padding=padding)

    @_text(
        "binary_join_element_wise",
        "text, ... -> text",
        Spelling("x || y", lambda x, y: x.str.concat(y)),
    )
    def concat(self, *others: Any, separator: str = "") -> Expr:
        """The text and the others one behind another; null where one of them is."""
        return call(
            "binary_join_element_wise", self._x, *others, separator, null_handling="emit_null"
        )
