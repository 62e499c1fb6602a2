"""The parser: sqlglot's, with the grammar that is ours.

    statement   = select | CREATE TABLE .. | CREATE VIEW .. AS select | EXPLAIN select
    item        = expression [clause] [AS name]
    table       = one {UNION [ALL] one} [AS name] [clause] [AS name]
    one         = name | (select) | (table) | table function

Functions keep the names that were written: functions.py has the one table of what they mean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import sqlglot.errors
from sqlglot import exp
from sqlglot.parsers.risingwave import RisingWaveParser
from sqlglot.tokenizer_core import Token, TokenType

from gapless.sql_queries import clause as clauses
from gapless.sql_queries.clause import CLAUSE, ROW_NUMBER, Attribute, Clause, Melded, Span
from gapless.sql_queries.places import AT
from gapless.sql_queries.table_functions import TableFunctionParser

_STATEMENTS = "write SELECT, CREATE TABLE, CREATE VIEW or EXPLAIN"
_INSTEAD = {
    "UPDATE": "rows come from outside and do not change: map(...) or a SELECT computes new columns",
    "DELETE": "rows do not go: a WHERE leaves them out",
    "INSERT": "rows come from outside: `gapless ingest` writes a journal",
    "MERGE": "a JOIN combines tables",
}
_QUERY_BEGINS = frozenset(
    (TokenType.SELECT, TokenType.WITH, TokenType.VALUES, TokenType.L_PAREN, TokenType.TABLE)
)
_KEPT_FUNCTIONS = ("CAST", "TRY_CAST", "EXTRACT", "SUBSTRING", "POSITION", "TRIM")


def place_of(error: sqlglot.errors.ParseError) -> int:
    """Where in the text the parser stood."""
    return int(error.errors[0].get("start") or 0)


def _plain(message: str, found: str) -> str:
    """What sqlglot says, in words about the text; `found` is the word where it stands."""
    if message.startswith("Invalid expression"):
        return f"{found!r} is not expected here" if found else "the text ends too early"
    if message.startswith("Required keyword"):
        return f"something is missing here, before or behind {found!r}"
    if message.startswith("Expected table name"):
        return "the name of a table is missing"
    if message.startswith("Expecting "):
        return f"{message.removeprefix('Expecting ')} is missing before {found!r}"
    return message


def _at_its_word(name: str) -> Callable[..., Any]:
    """A method of sqlglot's parser, whose node knows the word that it begins with."""
    inherited = getattr(RisingWaveParser, name)

    def parse(self: Any, *args: Any, **options: Any) -> Any:
        begin = self._curr
        node = inherited(self, *args, **options)
        if isinstance(node, exp.Expr) and begin and not any(node is each for each in args):
            node.meta.setdefault(AT, begin.start)
        return node

    return parse


class SqlParser(TableFunctionParser, RisingWaveParser):
    """Texts of our dialect to trees of sqlglot's, with the nodes of clause.py."""

    parse_set_operation = _at_its_word("parse_set_operation")
    _parse_order = _at_its_word("_parse_order")
    _parse_limit = _at_its_word("_parse_limit")
    _parse_types = _at_its_word("_parse_types")
    _parse_paren = _at_its_word("_parse_paren")
    _parse_function_call = _at_its_word("_parse_function_call")
    _parse_cube_or_rollup = _at_its_word("_parse_cube_or_rollup")
    _join_at_its_word = _at_its_word("_parse_join")

    FUNCTIONS: ClassVar = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar = {"CASE": lambda self: self._parse_case()}
    FUNCTION_PARSERS: ClassVar = {
        name: RisingWaveParser.FUNCTION_PARSERS[name] for name in _KEPT_FUNCTIONS
    }

    # -- places -------------------------------------------------------------------------------

    def raise_error(self, message: str, token: Any = None) -> None:
        """Every error is told at a place of the text."""
        at = token or self._curr or self._prev or Token.string("")
        description = _plain(message.partition(" for <class")[0].rstrip("."), at.text)
        error = sqlglot.errors.ParseError.new(message, description=description)
        error.errors[0]["start"] = at.start if self._curr or token else at.end + 1
        raise error

    def expression(self, instance: Any, token: Any = None, comments: Any = None) -> Any:
        """Every node knows a place: that of its first word where it has one."""
        made = super().expression(instance, token, comments)
        if "start" not in made.meta and self._prev:
            made.update_positions(self._prev)
        return made

    # -- statements ---------------------------------------------------------------------------

    def _parse_statement(self) -> Any:
        if not self._curr:
            return None
        if self._match(TokenType.DESCRIBE):
            told = self._prev
            self._match_text_seq("PLAN", "FOR")
            if not self._match_set((TokenType.DESCRIBE, *_QUERY_BEGINS), advance=False):
                self.raise_error("EXPLAIN takes a query, as in EXPLAIN SELECT x FROM t", told)
            return self.expression(exp.Describe(this=self._parse_statement()), told)
        if self._match(TokenType.CREATE):
            return self._parse_create()
        if self._match_set((TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN), advance=False):
            return self._parse_query_modifiers(
                self._parse_set_operations(self._parse_select(nested=True))
            )
        word = self._curr.text.upper()
        advice = _INSTEAD.get(word)
        self.raise_error(
            f"{word}: {advice}" if advice else f"no statement begins with {word}: {_STATEMENTS}"
        )
        return None

    def _parse_create(self) -> Any:
        begin = self._prev
        self._match_texts(("TEMPORARY", "TEMP", "MATERIALIZED"))
        kind = self._curr.text.upper()
        if kind == "OR":
            self.raise_error("a script makes each name once: leave OR REPLACE out")
        if kind not in ("TABLE", "SOURCE", "VIEW"):
            self.raise_error(f"CREATE {kind}: {_STATEMENTS}")
        self._advance()
        if self._match_text_seq("IF"):
            self.raise_error("a script makes each name once: leave IF NOT EXISTS out", self._prev)
        name = self._parse_table_parts(schema=True)
        if kind != "VIEW":
            if self._match(TokenType.ALIAS, advance=False):
                self.raise_error("a table has columns: what a SELECT gives is CREATE VIEW .. AS")
            made = exp.Create(this=self._parse_schema(this=name), kind="TABLE")
            if self._match(TokenType.WITH, advance=False):
                self.raise_error(
                    "what a table reads is said outside: sources=, --source NAME=PATH or --journal"
                )
        else:
            columns = []
            if self._match(TokenType.L_PAREN, advance=False):
                columns = self._parse_wrapped_id_vars()
            if not self._match(TokenType.ALIAS):
                self.raise_error("CREATE VIEW name AS SELECT ...: AS is missing")
            schema = exp.Schema(this=name, expressions=columns)
            made = exp.Create(this=schema, kind=kind, expression=self._parse_statement())
        return self.expression(made, begin)

    # -- items of a select list ---------------------------------------------------------------

    def _parse_expression(self) -> Any:
        item = super()._parse_expression()
        found = self._parse_clause()
        if found is None or item is None:
            return item
        if not isinstance(item, exp.Alias) and self._match(TokenType.ALIAS):
            item = self.expression(exp.Alias(this=item, alias=self._parse_id_var(any_token=True)))
        item.set(CLAUSE, found)
        return item

    def _parse_bracket(self, this: Any = None) -> Any:
        if isinstance(this, exp.Table) or self._begins_clause():
            return this
        return super()._parse_bracket(this)

    def _parse_column_ops(self, this: Any) -> Any:
        return this if self._begins_clause() else super()._parse_column_ops(this)

    def _parse_function(self, *args: Any, **options: Any) -> Any:
        """SESSION(..) in GROUP BY is a call, though SESSION is a word of its own."""
        begin = self._curr
        is_call = begin.text.upper() == "SESSION" and self._next.token_type == TokenType.L_PAREN
        if not begin or not is_call:
            return super()._parse_function(*args, **options)
        self._advance(2)
        given = self._parse_csv(self._parse_disjunction)
        self._match_r_paren()
        return self.expression(exp.Anonymous(this=begin.text, expressions=given), begin)

    # -- FROM ---------------------------------------------------------------------------------

    def _parse_table(self, *args: Any, **options: Any) -> Any:
        if options.get("schema") or options.get("is_db_reference"):
            return super()._parse_table(*args, **options)
        joins = options.pop("joins", False)
        first = self._one_table(*args, **options)
        inputs = [first]
        while first is not None and self._melds():
            self._advance()
            self._match(TokenType.ALL)
            other = self._one_table(*args, **options)
            if other is None:
                self.raise_error("a table is missing behind UNION")
            inputs.append(other)
        table = first
        if len(inputs) > 1:
            table = self._melded(inputs)
        if table is None:
            return None
        found = self._parse_clause()
        if found is not None:
            table.set(CLAUSE, found)
            if not table.args.get("alias"):
                table.set("alias", self._parse_table_alias())
        if joins:
            for join in self._parse_joins():
                table.append("joins", join)
        return table

    def _one_table(self, *args: Any, **options: Any) -> Any:
        return self._parse_table_function() or super()._parse_table(*args, **options)

    def _melded(self, inputs: list[Any]) -> Melded:
        """The union of tables; the last one's name is that of all."""
        alias = inputs[-1].args.get("alias")
        if alias is not None:
            inputs[-1].set("alias", None)
        made: Melded = self.expression(Melded(expressions=inputs, alias=alias))
        return made

    def _melds(self) -> bool:
        """Whether a union of tables goes on, and not one of queries begins."""
        if not self._match(TokenType.UNION, advance=False):
            return False
        ahead = self._next
        if ahead.token_type in (TokenType.ALL, TokenType.DISTINCT):
            at = self._index + 2
            ahead = self._tokens[at] if at < self._tokens_size else ahead
        if ahead.token_type == TokenType.L_PAREN:
            return not self._is_query_behind(ahead)
        return ahead.token_type not in _QUERY_BEGINS

    def _is_query_behind(self, paren: Any) -> bool:
        at = self._tokens.index(paren, self._index)
        while at < self._tokens_size and self._tokens[at].token_type == TokenType.L_PAREN:
            at += 1
        inner = self._tokens[at].token_type if at < self._tokens_size else None
        return inner in (TokenType.SELECT, TokenType.WITH, TokenType.VALUES)

    def _parse_join(self, *args: Any, **options: Any) -> Any:
        if self._match(TokenType.COMMA, advance=False) and self._next.token_type in (
            TokenType.WHERE,
            TokenType.GROUP_BY,
        ):
            self.raise_error("a table is missing behind the comma", self._curr)
        return self._join_at_its_word(*args, **options)

    # -- the window clause --------------------------------------------------------------------

    def _begins_clause(self) -> bool:
        if self._curr.token_type != TokenType.L_BRACKET:
            return False
        at = self._index + 2
        behind = self._tokens[at].token_type if at < self._tokens_size else None
        return self._next.text.upper() in clauses.WORDS and behind != TokenType.R_BRACKET

    def _parse_clause(self) -> Clause | None:
        if not self._begins_clause():
            return None
        begin = self._curr
        self._advance()
        found = Clause()
        while True:
            word = self._curr.text.upper()
            name = clauses.WORDS.get(word)
            if name is None:
                self.raise_error(
                    f"a window has RANGE, SLIDE, WA, WATTR, RATTR, SATTR and PA, not {word}"
                )
                break
            if found.args.get(name):
                self.raise_error(f"{word} is said twice")
            self._advance()
            is_span = name in ("range", "slide")
            found.set(name, self._parse_span(word) if is_span else self._parse_attributes(word))
            if not self._match(TokenType.COMMA):
                break
        if not self._match(TokenType.R_BRACKET):
            self.raise_error("a comma or ] is missing in the window")
        made: Clause = self.expression(found, begin)
        return made

    def _parse_span(self, word: str) -> Any:
        begin = self._curr
        if self._match(TokenType.ALL):
            return self._placed(Span(unit="ALL"), begin)
        is_tumbling = self._match_texts(("TUMBLING",))
        if not self._match(TokenType.NUMBER):
            self.raise_error(f"{word}: write a number and a unit, as in {word} 10 minutes")
        number = self._prev.text
        unit = self._advance_any()
        if unit is None:
            self.raise_error(f"{word} {number}: a unit is missing, as in {word} {number} minutes")
        return self._placed(
            Span(this=number, unit=self._prev.text.lower(), tumbling=is_tumbling), begin
        )

    def _parse_attributes(self, word: str) -> Any:
        if word == "PA" and self._match(TokenType.L_PAREN):
            found = self._parse_csv(lambda: self._parse_attribute(word))
            self._match_r_paren()
            return found
        one = self._parse_attribute(word)
        return [one] if word == "PA" else one

    def _parse_attribute(self, word: str) -> Any:
        begin = self._curr
        if self._match_text_seq("ROW", "-", "NUM") or self._match_texts(("ROW_NUM",)):
            return self._placed(Attribute(this=ROW_NUMBER), begin)
        if self._match_text_seq("RANK", "("):
            column = self._parse_column()
            self._match_r_paren()
            return self._placed(Attribute(this=column, rank=True), begin)
        column = self._parse_column()
        if column is None:
            self.raise_error(f"{word}: the name of a column is missing")
        return self._placed(Attribute(this=column), begin)

    def _placed(self, node: Any, token: Any) -> Any:
        return self.expression(node, token)
