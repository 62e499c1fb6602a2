"""Control documents: plain data as msgpack. Journal commits, job records, snapshot headers.

A document is None, bool, int, float, str, bytes, a list of documents, or a dict from str to
documents; nothing else goes in or comes out: no extension types, no timestamps, no objects.

`unpack` takes bytes from anybody. It first walks them without building anything, so that a claim
("an array of a billion items follows") is only believed once the items are seen to be there; what
is then built is bounded by the bytes given. Each failure is a `DecodeError`.

`Fields` takes a document apart so that errors name the field and the bound:

    job = Fields(unpack(data), "job record")
    name = job.take("name", str)
    replicas = job.take_int("replicas", low=1, high=64)
    job.done()                     # a field that nobody took is an error
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgpack

from gapless.protocol.errors import DecodeError, Misuse

BYTES_MAX = 1 << 20
"""Bytes of one document: job records and commits take a few KB; what grows with data is a frame."""
DEPTH_MAX = 100
"""Levels of lists and dicts inside each other: an expression of the greatest depth, and some."""

Document = None | bool | int | float | str | bytes | list["Document"] | dict[str, "Document"]

_T = TypeVar("_T")
_REQUIRED: Final = object()
_ATOMS = frozenset((type(None), bool, float, str, bytes))
"""Types of which every value is plain."""
_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1  # what msgpack holds


def pack(document: Document) -> bytes:
    """The document as msgpack; raises `Misuse` where it is not plain data or is too large."""
    problem = _problem(document, 0)
    if problem:
        raise Misuse(f"document: {problem}")
    try:
        data: bytes = msgpack.packb(document, use_bin_type=True, strict_types=True)
    except UnicodeEncodeError as e:
        raise Misuse(f"document: {e}") from None
    if len(data) > BYTES_MAX:
        raise Misuse(f"a document of {len(data)} bytes: {BYTES_MAX} is the most")
    return data


def unpack(data: bytes | memoryview, *, max_bytes: int = BYTES_MAX) -> Document:
    """The document that `data` is, no byte more; raises `DecodeError` if it is not one."""
    size = len(data)
    if not 0 < size <= max_bytes:
        raise DecodeError("document", f"{size} bytes", f"1 to {max_bytes}")
    limits: Any = {
        "max_str_len": size,
        "max_bin_len": size,
        "max_array_len": size,
        "max_map_len": size // 2,
        "max_ext_len": 0,
    }
    try:
        _check_structure(data, limits)
        document: Document = msgpack.unpackb(
            data, raw=False, strict_map_key=True, object_pairs_hook=_mapping, **limits
        )
    except (ValueError, msgpack.UnpackException, RecursionError) as e:
        # UnicodeDecodeError and msgpack's format errors are ValueErrors
        reason = str(e) or type(e).__name__
        raise DecodeError("document", f"is not msgpack: {reason}") from None
    problem = _problem(document, 0)
    if problem:
        raise DecodeError("document", problem)
    return document


def _check_structure(data: bytes | memoryview, limits: Any) -> None:
    """Raises unless one whole value fills `data`. Builds nothing."""
    unpacker = msgpack.Unpacker(max_buffer_size=len(data), **limits)
    unpacker.feed(data)
    unpacker.skip()
    if unpacker.tell() != len(data):
        raise DecodeError("document", f"{len(data) - unpacker.tell()} bytes after its end", 0)


def _mapping(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise DecodeError("document", "a dict with a key twice", "each key once")
    return mapping


def _problem(value: object, depth: int) -> str | None:
    """Why `value` is not plain data; None where it is."""
    if depth > DEPTH_MAX:
        return f"nests deeper than {DEPTH_MAX} levels"
    kind = type(value)
    if kind in _ATOMS:
        return None
    if isinstance(value, dict) and kind is dict:
        for key, item in value.items():
            if type(key) is not str:
                return f"a key of type {type(key).__name__}, not str"
            if type(item) not in _ATOMS and (problem := _problem(item, depth + 1)):
                return problem
    elif isinstance(value, list) and kind is list:
        for item in value:
            if type(item) not in _ATOMS and (problem := _problem(item, depth + 1)):
                return problem
    elif isinstance(value, int) and kind is int:
        if not _INT_MIN <= value <= _INT_MAX:
            return f"the integer {value} has more than 64 bits"
    else:
        return f"a value of type {kind.__name__}"
    return None


class Fields:
    """Takes the fields of a document one by one, each with its check.

    `what` names the document in errors. A field that is absent is an error unless a default is
    given; `done()` refuses what was not taken.
    """

    def __init__(self, document: Document, what: str) -> None:
        if not isinstance(document, dict):
            raise DecodeError(what, f"is a {type(document).__name__}", "a dict")
        self._left = dict(document)
        self._what = what

    def take(self, name: str, kind: type[_T], default: Any = _REQUIRED) -> _T:
        """The field, which must be exactly of type `kind`; a bool is no int."""
        if name not in self._left:
            if default is _REQUIRED:
                raise DecodeError(f"{self._what}.{name}", "is missing", f"a {kind.__name__}")
            value = default
        else:
            value = self._left.pop(name)
            if type(value) is not kind:
                raise DecodeError(
                    f"{self._what}.{name}", f"is a {type(value).__name__}", f"a {kind.__name__}"
                )
        taken: _T = value
        return taken

    def take_int(self, name: str, low: int, high: int, default: Any = _REQUIRED) -> int:
        """An integer from `low` to `high`, both included."""
        value = self.take(name, int, default)
        if value is not default and not low <= value <= high:
            raise DecodeError(f"{self._what}.{name}", f"is {value}", f"{low} to {high}")
        return value

    def take_list(self, name: str, kind: type[_T], max_length: int) -> list[_T]:
        """A list of at most `max_length` items, all exactly of type `kind`."""
        items = self.take(name, list)
        if len(items) > max_length:
            raise DecodeError(f"{self._what}.{name}", f"{len(items)} items", f"<= {max_length}")
        for i, item in enumerate(items):
            if type(item) is not kind:
                raise DecodeError(
                    f"{self._what}.{name}[{i}]", f"is a {type(item).__name__}", kind.__name__
                )
        return items

    def take_fields(self, name: str) -> Fields:
        """The fields of a dict inside this one; its own `done()` is the caller's to call."""
        return Fields(self.take(name, dict), f"{self._what}.{name}")

    def done(self) -> None:
        """Raises if a field is left that nobody took."""
        if self._left:
            raise DecodeError(self._what, f"has unknown fields: {', '.join(sorted(self._left))}")
