"""Table functions, in Flink's form and RisingWave's.

TABLE(TUMBLE(TABLE flows, DESCRIPTOR(ts), INTERVAL '5' MINUTE))
HOP(DATA => TABLE flows, TIMECOL => DESCRIPTOR(ts), SLIDE => .., SIZE => ..)
TUMBLE(flows, ts, INTERVAL '5 minutes')
CUMULATE(TABLE flows, DESCRIPTOR(ts), INTERVAL '10' MINUTE, INTERVAL '1' HOUR, INTERVAL '5' MINUTE)
SESSION(TABLE flows PARTITION BY src, DESCRIPTOR(ts), INTERVAL '30' SECOND)
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import TokenType

from gapless.sql_queries.clause import Argument, Descriptor, TableFunction

NAMES = ("TUMBLE", "HOP", "CUMULATE", "SESSION")
"""The table functions."""


class TableFunctionParser(Parser):
    """The part of the parser that reads them, and intervals."""

    def _parse_table_function(self) -> Any:
        """One, where one follows."""
        begin = self._index
        is_wrapped = self._match_text_seq("TABLE", "(")
        if self._curr.text.upper() not in NAMES or self._next.token_type != TokenType.L_PAREN:
            self._retreat(begin)
            return None
        token = self._curr
        self._advance(2)
        arguments = self._parse_csv(self._parse_argument)
        self._match_r_paren()
        if is_wrapped:
            self._match_r_paren()
        made = TableFunction(this=token.text.upper(), expressions=arguments)
        made = self.expression(made, token)
        made.set("alias", self._parse_table_alias())
        return made

    def _parse_argument(self) -> Any:
        begin = self._curr
        name = None
        if self._next.token_type == TokenType.FARROW:
            name = self._curr.text.upper()
            self._advance(2)
        partition = None
        value: Any
        if self._match(TokenType.TABLE):
            value = self._parse_table_parts(schema=True)
            partition = self._parse_partition()
        elif self._match_text_seq("DESCRIPTOR", "("):
            value = self.expression(Descriptor(this=self._parse_column()), begin)
            self._match_r_paren()
        elif self._match(TokenType.L_PAREN, advance=False):
            value = self._parse_select(nested=True, table=True)
            partition = self._parse_partition()
        else:
            value = self._parse_disjunction()
        if value is None:
            self.raise_error("an argument is missing")
        return self.expression(Argument(this=value, name=name, partition_by=partition), begin)

    def _parse_partition(self) -> Any:
        """PARTITION BY a, b: as far as columns go on, for a comma also divides arguments."""
        if not self._match(TokenType.PARTITION_BY):
            return None
        found = [self._parse_column()]
        while self._match(TokenType.COMMA, advance=False) and not self._argument_follows():
            self._advance()
            found.append(self._parse_column())
        if any(column is None for column in found):
            self.raise_error("PARTITION BY: the name of a column is missing")
        return found

    def _argument_follows(self) -> bool:
        at = self._index + 2
        behind = self._tokens[at].token_type if at < self._tokens_size else None
        if self._next.token_type == TokenType.INTERVAL:
            return True
        return behind in (TokenType.FARROW, TokenType.L_PAREN)

    def _parse_interval(self, *args: Any, **options: Any) -> Any:  # noqa: ARG002  # sqlglot's
        """INTERVAL '5' MINUTE, INTERVAL 5 MINUTES, INTERVAL '5 minutes'."""
        follows = self._next.token_type in (TokenType.STRING, TokenType.NUMBER)
        if not follows or not self._match(TokenType.INTERVAL):
            return None
        begin = self._prev
        this = self._parse_primary()
        unit = None
        if self._curr.token_type == TokenType.VAR or self._curr.text.isalpha():
            word = self._curr.text.upper().rstrip("S")
            if word in UNITS:
                self._advance()
                unit = exp.Var(this=word)
        return self.expression(exp.Interval(this=this, unit=unit), begin)


UNITS = frozenset(
    ("MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "YEAR")
)
"""Units that may stand behind an interval, without an S."""
