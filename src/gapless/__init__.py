"""Gapless: a high-availability runtime for continuous queries. Import it as `gl`.

    import gapless as gl

    schema = gl.StreamSchema({"src": "string", "len": "int32"})
    frame = gl.Frame.from_elements(schema, gl.parse("ins((A,7),6,20) stable(11)", schema))
    table = gl.Tdb(schema)
    table.fold(frame)

Names are loaded when they are first used: `import gapless` alone costs a few milliseconds.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

__version__ = version("gapless")

_HOMES = {
    "DetachedInput": "gapless.merge.membership",
    "DecodeError": "gapless.protocol.errors",
    "ExpressionError": "gapless.protocol.errors",
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
}
"""Every public name, and the module that it comes from."""

if TYPE_CHECKING:
    from gapless.merge.choose import StreamProperties
    from gapless.merge.lmerge import LMerge
    from gapless.merge.membership import DetachedInput
    from gapless.merge.policy import Policy, lag, quorum
    from gapless.protocol.elements import BEGIN, INF, Adjust, Insert, Stable
    from gapless.protocol.errors import (
        BadData,
        Bug,
        DecodeError,
        ExpressionError,
        FrameError,
        GaplessError,
        Misuse,
        ParseError,
        SchemaError,
        StreamViolation,
    )
    from gapless.protocol.expr import Expr, call, col, if_else, lit
    from gapless.protocol.frame import Frame, frames_of
    from gapless.protocol.schema import StreamSchema
    from gapless.protocol.tdb import Event, Tdb
    from gapless.protocol.text import format, parse

__all__ = [
    "BEGIN",
    "INF",
    "Adjust",
    "BadData",
    "Bug",
    "DecodeError",
    "DetachedInput",
    "Event",
    "Expr",
    "ExpressionError",
    "Frame",
    "FrameError",
    "GaplessError",
    "Insert",
    "LMerge",
    "Misuse",
    "ParseError",
    "Policy",
    "SchemaError",
    "Stable",
    "StreamProperties",
    "StreamSchema",
    "StreamViolation",
    "Tdb",
    "call",
    "col",
    "format",
    "frames_of",
    "if_else",
    "lag",
    "lit",
    "parse",
    "quorum",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"gapless has no public name {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
