"""Expressions over columns: small trees that name functions of `pyarrow.compute`.

    (col("len") > 0) & (col("src") == 3)       prints as ((len > 0) & (src == 3))

An expression is data: it prints, is compared with `same_as`, goes into documents and comes back,
and turns into Arrow's own expression for scans (`to_arrow`; Arrow's have no tree to look at).
Evaluating it calls the functions, column by column.

What its answers are, so that each replica gives the same:

- Functions are scalar and deterministic: row i of the answer depends on row i alone.
- Integer arithmetic that overflows, and any division by zero, is an `ExpressionError`, never a
  wrong number. Where a zero may come, say what then: `if_else(b == 0, None, a / b)`.
- Functions that choose (`if_else`, `case`, `coalesce`, `&`, `|`) fail a row only by what it needs.
- `/` divides as Python does, in float64; `//` rounds down and `%` takes the divisor's sign.
- Null stands for unknown: comparing with it gives null; `&` and `|` are Kleene's (false & null is
  false, true | null is true); a filter drops rows whose answer is null. `is_null` and `is_in`
  answer true or false always.
- Comparison is IEEE's: NaN equals nothing, unlike in a payload. Of numbers of different types it
  is exact, also where neither type holds the values of both.
- A number without a type is an int64 or float64, and Arrow widens as the other side needs; beside
  a uint64 column it is a uint64. `lit(5, "int8")` says otherwise.
- Functions see dictionaries decoded and views as plain strings; a bare column keeps its layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgpack
import pyarrow as pa
import pyarrow.compute as pc

from gapless.protocol.comparisons import COMPARES
from gapless.protocol.constant import Constant
from gapless.protocol.documents import Document
from gapless.protocol.errors import ExpressionError
from gapless.protocol.expr_aliases import of_expression
from gapless.protocol.expr_text import call_text
from gapless.protocol.function_table import listed
from gapless.protocol.functions import ARROW_ERRORS, arrow_call, build_options, evaluate, operand
from gapless.protocol.guards import GUARDS
from gapless.protocol.lists import normal
from gapless.protocol.operations import Operations
from gapless.protocol.own_functions import OWN

if TYPE_CHECKING:
    from gapless.protocol.date_functions import DateFunctions
    from gapless.protocol.list_functions import ListFunctions
    from gapless.protocol.text_functions import TextFunctions

DEPTH_MAX = 64
"""Levels of one tree: deeper ones are made by loops, where `is_in` or `coalesce` is meant."""
NODES_MAX = 4096
"""Functions, columns and literals of one tree, each use counted: evaluation visits all of them."""


class Expr(Operations):
    """A tree of functions over columns and literals. Immutable; make one with `col` and `lit`.

    Operators build trees, `==` included: compare two expressions with `same_as`. As a dictionary
    key an expression stands for itself alone.
    """

    __slots__ = ("_depth", "_has_guard", "_nodes")

    _depth: int
    _nodes: int
    _has_guard: bool
    """Whether a part of it concerns some rows only (guards.py)."""

    def _measure(self, args: Sequence[Expr] = (), function: str = "") -> None:
        self._has_guard = function in GUARDS or any(a._has_guard for a in args)
        self._depth = 1 + max((a._depth for a in args), default=0)
        self._nodes = 1 + sum(a._nodes for a in args)
        if self._depth > DEPTH_MAX:
            raise ExpressionError(f"an expression nests deeper than {DEPTH_MAX} levels")
        if self._nodes > NODES_MAX:
            raise ExpressionError(f"an expression of more than {NODES_MAX} parts")

    # -- what each kind of node says --------------------------------------------------------------

    @property
    def columns(self) -> frozenset[str]:
        """The names of the columns that it reads."""
        raise NotImplementedError

    def value(self, batch: pa.RecordBatch) -> pa.Array | pa.Scalar:
        """The same as `evaluate`; a constant is one value, and what Arrow raises is as it is."""
        raise NotImplementedError

    def to_arrow(self) -> pc.Expression:
        """The same as Arrow's expression, for a dataset's filter.

        Where both answer, they agree; Arrow's refuses more: `//`, views, functions of
        dictionaries, a uint64 too large for an int64, some literals beside decimals.
        """
        raise NotImplementedError

    # -- what can be done with any ------------------------------------------------------------

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        """The answer for each row; a constant is repeated. Raises `ExpressionError`."""
        try:
            value = self.value(batch)
            if isinstance(value, pa.Scalar):
                value = pa.repeat(value, batch.num_rows)
            return normal(value)
        except (ExpressionError, *ARROW_ERRORS) as e:
            found = self._guarded(batch)
            if found is not None:
                return found
            if isinstance(e, ExpressionError):
                raise
            raise ExpressionError(f"{self}: {e}") from None

    def _guarded(self, batch: pa.RecordBatch) -> pa.Array | None:
        """The answers if only such arguments fail as do not concern the row; None if others do."""
        if not self._has_guard:
            return None
        from gapless.protocol.failed_rows import answers

        found = answers(self, batch)
        return normal(found.values) if (found.reason < 0).all() else None

    def type(self, schema: pa.Schema) -> pa.DataType:
        """The type of its answers over batches of `schema`; raises where it does not fit them."""
        columns = [pa.nulls(0, field.type) for field in schema]
        return self.evaluate(pa.RecordBatch.from_arrays(columns, schema=schema)).type

    def to_document(self) -> Document:
        """The tree as plain data (see expr_documents.py)."""
        from gapless.protocol.expr_documents import document_of

        return document_of(self)

    def same_as(self, other: Expr) -> bool:
        """Whether both are the same tree."""
        return msgpack.packb(self.to_document()) == msgpack.packb(other.to_document())

    @staticmethod
    def from_document(document: Document) -> Expr:
        """The inverse of `to_document`, for documents from anybody: raises `DecodeError`."""
        from gapless.protocol.expr_documents import read_expression

        return read_expression(document)

    def __bool__(self) -> bool:
        raise ExpressionError(
            f"{self} has no truth value before it meets rows: use & | ~ with parentheses in place "
            "of and, or, not; between() in place of a < x < b; same_as() to compare expressions"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return Expr.from_document, (self.to_document(),)

    def __repr__(self) -> str:
        return str(self)

    # -- functions by type --------------------------------------------------------------------

    @property
    def str(self) -> TextFunctions:
        """Functions of text."""
        from gapless.protocol.text_functions import TextFunctions

        return TextFunctions(self)

    @property
    def dt(self) -> DateFunctions:
        """Functions of dates and times."""
        from gapless.protocol.date_functions import DateFunctions

        return DateFunctions(self)

    @property
    def list(self) -> ListFunctions:
        """Functions of lists."""
        from gapless.protocol.list_functions import ListFunctions

        return ListFunctions(self)

    if not TYPE_CHECKING:  # a type checker is to find such a name

        def __getattr__(self, name: str) -> Any:
            return of_expression(self, name)


class Column(Expr):
    """A column, by name. Made by `col`."""

    __slots__ = ("name",)

    def __init__(self, name: Any) -> None:
        if not isinstance(name, str) or not name:
            raise ExpressionError(f"col({name!r}): needs the name of a column")
        self.name = name
        self._measure()

    @property
    def columns(self) -> frozenset[str]:
        """Its name."""
        return frozenset((self.name,))

    def value(self, batch: pa.RecordBatch) -> pa.Array:
        """The column."""
        i = batch.schema.get_field_index(self.name)
        if i < 0:
            names = ", ".join(batch.schema.names)
            raise ExpressionError(f"no column {self.name!r} among {names}")
        return batch.column(i)

    def to_arrow(self) -> pc.Expression:
        """A reference to a field."""
        return pc.field(self.name)

    def __str__(self) -> str:
        return self.name if self.name.isidentifier() else f"col({self.name!r})"


class Literal(Expr):
    """A constant. Made by `lit`; a type that was not said may bend to its neighbour's."""

    __slots__ = ("constant",)

    def __init__(self, constant: Constant) -> None:
        self.constant = constant
        self._measure()

    @property
    def columns(self) -> frozenset[str]:
        """None."""
        return frozenset()

    def value(self, batch: pa.RecordBatch) -> pa.Scalar:  # noqa: ARG002  # a constant
        """The constant."""
        return self.constant.scalar

    def to_arrow(self) -> pc.Expression:
        """The constant."""
        return pc.scalar(self.constant.scalar)

    def __str__(self) -> str:
        return str(self.constant)


class Call(Expr):
    """A function of its arguments. Made by the operators and by `call`."""

    __slots__ = ("_built", "_compared", "_constants", "args", "function", "options")

    def __init__(self, function: str, args: tuple[Expr, ...], options: dict[str, Any]) -> None:
        self.function = function
        self.args = args
        self.options = options
        self._measure(args, function)
        self._built = build_options(function, len(args), options)
        self._constants = [(i, a.constant) for i, a in enumerate(args) if isinstance(a, Literal)]
        is_one = function in COMPARES and len(self._constants) == 1
        self._compared = self._constants[0] if is_one else None  # and which argument it is

    @property
    def columns(self) -> frozenset[str]:
        """Those of all arguments."""
        return frozenset().union(*(a.columns for a in self.args))

    def value(self, batch: pa.RecordBatch) -> pa.Array | pa.Scalar:
        """What the function makes of what its arguments make of the rows."""
        return self.applied(self.operands([a.value(batch) for a in self.args]))

    def operands(self, values: Sequence[Any]) -> list[Any]:
        """The values of its arguments as the function takes them."""
        values = [operand(value) for value in values]
        if self._compared is not None:
            place, constant = self._compared
            values[place] = constant.beside(values[1 - place].type)
        if pa.lib.Type_UINT64 in [v.type.id for v in values]:
            for place, constant in self._constants:
                values[place] = constant.beside_uint64(values[place])
        return values

    def applied(self, values: Sequence[Any]) -> pa.Array | pa.Scalar:
        """The function of its operands. Raises what Arrow raises, or `ExpressionError`."""
        return evaluate(self.function, values, self._built)

    def to_arrow(self) -> pc.Expression:
        """The call, as Arrow's own functions build it over Arrow's expressions."""
        if self.function == "floor_divide" or self.function in OWN:
            name = "//" if self.function == "floor_divide" else self.function
            raise ExpressionError(f"{self}: Arrow has no {name}; evaluate it after the scan")
        args = [a.to_arrow() for a in self.args]
        return arrow_call(self.function, args, self.options, self._built)

    def __str__(self) -> str:
        return call_text(self.function, [str(a) for a in self.args], self.options)


class Part(Call):
    """A call that is written without brackets, as `x.dt.hour`; with them it is the same."""

    __slots__ = ()

    def __call__(self) -> Expr:
        """Itself."""
        return self


_WRAPS = frozenset(
    {"abs", "add", "divide", "multiply", "negate", "power", "shift_left", "shift_right", "subtract"}
)
"""Functions of Arrow that wrap integers in silence, and have a twin that does not."""


# -- making them ------------------------------------------------------------------------------


def col(name: str) -> Expr:
    """The column `name`."""
    return Column(name)


def lit(value: Any, type: pa.DataType | str | None = None) -> Expr:  # noqa: A002  # as in Arrow
    """A constant: a Python value or an Arrow scalar, of the given type if one is given."""
    return Literal(Constant.of(value, type))


def call(function: str, *args: Any, **options: Any) -> Expr:
    """Any deterministic scalar function of `pyarrow.compute`, with its options by name.

    Arguments that are not expressions are literals. Arithmetic is checked, as with the operators:
    `call("abs", x)` is Arrow's `abs_checked`, which fails where integers would wrap in silence.
    """
    if function in _WRAPS:
        function = f"{function}_checked"
    return Call(function, tuple(_expr(a) for a in args), options)


@listed("gl", "if_else", "bool, any, any -> the same")
def if_else(condition: Any, then: Any, otherwise: Any) -> Expr:
    """`then` where the condition is true, `otherwise` where it is false, null where it is null."""
    return call("if_else", condition, then, otherwise)


def _expr(value: Any) -> Expr:
    return value if isinstance(value, Expr) else lit(value)
