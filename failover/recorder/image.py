"""A machine, and the events that it is given, as bytes: an image, and back.

    written({"machine": merger, "events": [...]})  <->  values, names of classes, Arrow data

An image names classes and functions of Gapless and holds their values; it never holds code. What a
reader may call is a closed list, so an image that somebody has made up runs nothing of its own.
A plan is no part of it: an executor is written as the plan's name and a snapshot of its state, and
the reader is told how such an executor is made. Nor is work that is under way beside a machine, or
a plan in the middle of a frame: such a machine has no image, and has one again some events later.

A closure of a machine (a handler in a table) is written as the place of its code in its module, and
read only where the same code stands there.
"""

from __future__ import annotations

import importlib
import io
import pickle
import sys
import zlib
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from types import (
    BuiltinMethodType,
    CellType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MethodType,
    ModuleType,
)
from typing import Any

import pyarrow as pa

from gapless.failover.background_work import BackgroundWork
from gapless.failover.replica.executor import Executor
from gapless.merge.lmerge import LMerge
from gapless.merge.snapshot import Snapshot
from gapless.operators.aside import Aside
from gapless.protocol.errors import BadData, DecodeError
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema

KINDS_KEPT = 1024
"""Classes of which it is known how they are written: all that machines have."""
IMAGE_BYTES_MAX = 1 << 20
"""Of a machine while it is pumped: some milliseconds to make. A larger one has no image."""
FOLDERS = ("failover", "merge", "protocol", "operators", "engine")
"""Of Gapless, whose classes and functions an image may name: they touch no file and no network."""
MODULES = ("sidecar.client.producer_machine",)
"""Single modules, likewise: machines among what does touch the network."""
_OTHERS = frozenset(
    {
        "builtins.frozenset",
        "builtins.iter",
        "builtins.object",
        "builtins.set",
        "collections.Counter",
        "collections.OrderedDict",
        "collections.defaultdict",
        "collections.deque",
        "copyreg.__newobj__",
        "copyreg._reconstructor",
        "functools.partial",
        "itertools.count",
        "numpy._core.multiarray._reconstruct",
        "numpy._core.multiarray.scalar",
        "numpy._core.numeric._frombuffer",
        "numpy.dtype",
        "numpy.ndarray",
    }
)


class NoImage(Exception):
    """A machine that cannot be written now."""


MakeExecutor = Callable[[str, Aside], Executor]
"""Makes an executor of a plan, by its name, that puts rows aside there."""


def written(what: Any, bytes_max: int | None = None) -> bytes:
    """An image. Raises `NoImage` where it would be larger, or where something has none."""
    out = _Bounded(bytes_max)
    try:
        _Writer(out, bytes_max).dump(what)
    except (pickle.PicklingError, TypeError, AttributeError) as e:
        raise NoImage(f"{e}") from e
    return out.getvalue()


def read(data: bytes, executor: MakeExecutor) -> Any:
    """Its inverse. Raises `DecodeError` where it is no image, or one of another release."""
    try:
        return _Reader(io.BytesIO(data), executor).load()
    except BadData:
        raise
    except Exception as e:  # whatever bytes that are no image make of a reader
        raise DecodeError("image of a machine", f"{type(e).__name__}: {e}", _RELEASE) from e


_RELEASE = "what this release writes: read it with the release that wrote it"


class _Bounded(io.BytesIO):
    def __init__(self, bytes_max: int | None) -> None:
        super().__init__()
        self._bytes_max = bytes_max

    def write(self, data: Any) -> int:
        """Refuses what is too much."""
        if self._bytes_max is not None and self.tell() + len(data) > self._bytes_max:
            raise NoImage(f"it is larger than {self._bytes_max} bytes")
        return super().write(data)


class _Writer(pickle.Pickler):
    """What is asked of it for each object is one look into a table: there are hundreds of them."""

    def __init__(self, out: io.BytesIO, bytes_max: int | None) -> None:
        super().__init__(out, protocol=5)
        self._bytes_max = bytes_max

    def reducer_override(self, obj: Any) -> Any:
        """What is not written as its attributes are."""
        reduced = _reducer_of(type(obj))  # type: ignore[arg-type]  # classes are hashable
        return NotImplemented if reduced is None else reduced(self, obj)

    def check(self, nbytes: int) -> None:
        """Raises `NoImage` where state of so many bytes is too much."""
        if self._bytes_max is not None and nbytes > self._bytes_max:
            raise NoImage(f"its state has {nbytes} bytes, more than {self._bytes_max}")


class _Reader(pickle.Unpickler):
    def __init__(self, data: io.BytesIO, executor: MakeExecutor) -> None:
        super().__init__(data)
        self._make = executor

    def find_class(self, module: str, name: str) -> Any:
        """Classes and functions of the list, and nothing that is reached through them."""
        if f"{module}.{name}" in _OTHERS:
            return super().find_class(module, name)
        if not _may_be_named(module):
            raise DecodeError("image of a machine", f"names {module}.{name}", _RELEASE)
        if module == __name__ and name == _executor.__name__:
            return partial(_executor, self._make)
        found = super().find_class(module, name)
        if getattr(found, "__module__", None) != module:
            raise DecodeError("image of a machine", f"names {module}.{name}", _RELEASE)
        return found


def _may_be_named(module: str) -> bool:
    root, _, name = module.partition(".")
    return root == "gapless" and (name.partition(".")[0] in FOLDERS or name in MODULES)


# -- what is written in a way of its own ----------------------------------------------------------


def _reduced_method(_: _Writer, method: MethodType) -> Any:
    return _method, (method.__self__, method.__func__.__name__)


def _reduced_builtin(_: _Writer, method: BuiltinMethodType) -> Any:
    if isinstance(method.__self__, ModuleType):
        return NotImplemented
    return _method, (method.__self__, method.__name__)


def _reduced_executor(writer: _Writer, executor: Executor) -> Any:
    writer.check(executor.nbytes)
    state = dict(executor.snapshot()), dict(executor.given), executor.useless
    return _executor, (executor.name, executor.set_aside, state)


def _reduced_merge(writer: _Writer, merge: LMerge) -> Any:
    writer.check(merge.nbytes)
    shot = merge.snapshot()
    return LMerge.restore, (merge.schema, Snapshot(shot.document, shot.tables))


def _reduced_beside(_: _Writer, beside: BackgroundWork) -> Any:
    if beside.under_way:
        raise NoImage("work is under way beside it")
    return NotImplemented


@lru_cache(KINDS_KEPT)
def _reducer_of(kind: type) -> Callable[[_Writer, Any], Any] | None:
    return next((_REDUCERS[base] for base in kind.__mro__ if base in _REDUCERS), None)


def _arrow(schema: pa.Schema) -> bytes:
    return bytes(schema.serialize())


def _ipc(batch: pa.RecordBatch) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(out.getvalue())


def _batch(data: bytes) -> pa.RecordBatch:
    with pa.ipc.open_stream(data) as stream:
        return stream.read_next_batch()


def _schema(payload: bytes, time_unit: str) -> StreamSchema:
    return StreamSchema(pa.ipc.read_schema(pa.py_buffer(payload)), time_unit)


def _proxy(values: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(values)


def _executor(
    make: MakeExecutor, name: str, set_aside: int, state: tuple[Any, Any, Any]
) -> Executor:
    aside = Aside("aside")
    aside.count = set_aside
    executor = make(name, aside)
    executor.go_on(*state)
    return executor


def _method(of: Any, name: str) -> Any:
    if not type(of).__module__.startswith(("gapless.", "builtins", "collections")):
        raise DecodeError("image of a machine", f"calls a {type(of).__name__}", _RELEASE)
    return getattr(of, name)


def _reduced_function(_: _Writer, function: FunctionType) -> Any:
    """A function by its name; a closure by where its code stands, and the values that it holds."""
    module, code = sys.modules.get(function.__module__), function.__code__
    if "<" not in function.__qualname__:
        return NotImplemented
    outer = function.__qualname__.partition(".<")[0]
    if module is None or not function.__module__.startswith("gapless."):
        raise NoImage(f"it holds {function.__qualname__}, a function that is not Gapless's own")
    place = next((i for i, c in enumerate(_codes(module, outer)) if c is code), None)
    if place is None:
        raise NoImage(f"it holds {function.__qualname__}, which is not where it says it is")
    cells = function.__closure__ or ()
    named = function.__module__, outer, place, _sum(code), len(cells), function.__defaults__
    held = [cell.cell_contents for cell in cells]
    return _closure, named, held, None, None, _filled


def _codes(module: Any, outer: str) -> Iterator[CodeType]:
    """All code within a function of a module, or within its body for a lambda of its own."""
    found: Any = module
    for name in outer.split("."):
        found = getattr(found, name)
    yield from _within(getattr(found, "fget", found).__code__)


def _within(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _within(each)


def _sum(code: CodeType) -> int:
    """Tells apart codes that do not do the same."""
    return zlib.crc32(code.co_code + repr((code.co_names, code.co_freevars)).encode())


def _closure(
    module: str, outer: str, place: int, checksum: int, cells: int, defaults: Any
) -> FunctionType:
    if not _may_be_named(module):
        raise DecodeError("image of a machine", f"names {module}", _RELEASE)
    home = importlib.import_module(module)
    code = next((c for i, c in enumerate(_codes(home, outer)) if i == place), None)
    if code is None or _sum(code) != checksum:
        raise DecodeError("image of a machine", f"has other code in {module}.{outer}", _RELEASE)
    closure = tuple(CellType() for _ in range(cells))
    return FunctionType(code, vars(home), code.co_name, defaults, closure)


def _filled(function: FunctionType, held: list[Any]) -> None:
    for cell, value in zip(function.__closure__ or (), held, strict=True):
        cell.cell_contents = value


_REDUCERS: dict[type, Callable[[_Writer, Any], Any]] = {
    FunctionType: _reduced_function,
    MethodType: _reduced_method,
    BuiltinMethodType: _reduced_builtin,
    Frame: lambda _, frame: (Frame, (frame.batch, frame.stable, frame.schema)),
    StreamSchema: lambda _, schema: (_schema, (_arrow(schema.payload), schema.time_unit)),
    pa.RecordBatch: lambda _, batch: (_batch, (_ipc(batch),)),
    MappingProxyType: lambda _, values: (_proxy, (dict(values),)),
    Executor: _reduced_executor,
    LMerge: _reduced_merge,
    BackgroundWork: _reduced_beside,
}
"""By class, what is written in place of its attributes."""
