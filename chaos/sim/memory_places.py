"""Where functions of users can keep something between two calls: found by reading their code.

    seen = set()                      a name that code reads or binds        _Name
    def is_new(src, memo={}): ...     defaults of arguments                  _Attribute
    is_new.calls = 0                  attributes of functions and classes    _Attribute
    def counted(start): def f(): ..   variables of a function around it      _Cell
    gl.function(Scorer().score, ..)   attributes of an object it is bound to _Attribute
    partial(score, {})                arguments of a partial                 _Arguments
    @functools.cache                  its results                            _Results

Followed is the code of users: what the functions read and call, except for the standard library and
for what is installed, unless one of the functions lies there.
"""

from __future__ import annotations

import builtins
import dis
import functools
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

PLACES_MAX = 10_000
"""Of one query's functions. More is a program; the rest stays shared."""
FOLLOWED_MAX = 1_000
"""Things in a list or a mapping that are looked at: tables of functions are shorter."""


class Nothing(Enum):
    """What a place holds where nothing is there (yet). One object, also in copies."""

    MISSING = 0


MISSING: Any = Nothing.MISSING

_READS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"})
_CACHED = type(functools.lru_cache(lambda: None))
_FIXED = (
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.MethodWrapperType,
    types.WrapperDescriptorType,
    type,
    _CACHED,
)
"""What names stand for and hardly ever change: these are followed; their names are no places."""
_TOOLS = frozenset({"", "builtins", "gapless", "numpy", "pandas", "pyarrow"})
"""Packages in which nothing of users is, on either side of a call."""
_OF_INSTALLED = frozenset({"site-packages", "dist-packages"})


class Place(Protocol):
    """Where a value is kept."""

    def get(self) -> Any:
        """The value; `MISSING` where none is there."""

    def set(self, value: Any) -> None:
        """Another value; none where it is `MISSING`."""


class _Name:
    def __init__(self, names: dict[str, Any], name: str) -> None:
        self._names, self._name = names, name

    def get(self) -> Any:
        return self._names.get(self._name, MISSING)

    def set(self, value: Any) -> None:
        if value is MISSING:
            self._names.pop(self._name, None)
        else:
            self._names[self._name] = value


class _Attribute:
    def __init__(self, owner: Any, name: str) -> None:
        self._owner, self._name = owner, name

    def get(self) -> Any:
        if isinstance(self._owner, type):  # as it stands there: a descriptor would give a value
            return vars(self._owner).get(self._name, MISSING)
        return getattr(self._owner, self._name, MISSING)

    def set(self, value: Any) -> None:
        if value is not MISSING:
            setattr(self._owner, self._name, value)
        elif hasattr(self._owner, self._name):
            delattr(self._owner, self._name)


class _Cell:
    def __init__(self, cell: types.CellType) -> None:
        self._cell = cell

    def get(self) -> Any:
        try:
            return self._cell.cell_contents
        except ValueError:  # it has none yet
            return MISSING

    def set(self, value: Any) -> None:
        if value is not MISSING:
            self._cell.cell_contents = value
        elif self.get() is not MISSING:
            del self._cell.cell_contents


class _Arguments:
    def __init__(self, partial: functools.partial[Any]) -> None:
        self._partial: Any = partial

    def get(self) -> Any:
        return self._partial.__reduce__()[2]

    def set(self, value: Any) -> None:
        self._partial.__setstate__(value)


class _Results:
    """They are no value: the next process finds none."""

    def __init__(self, cached: Any) -> None:
        self._cached = cached

    def get(self) -> Any:
        return MISSING

    def set(self, value: Any) -> None:  # noqa: ARG002  # there is never one
        self._cached.cache_clear()


class Search:
    """All that some functions can reach."""

    def __init__(self, functions: Iterable[Callable[..., Any]], of_machine: Iterable[Any]) -> None:
        """`of_machine`: what each machine has of its own, a clock say, in the form of objects."""
        self.places: list[Place] = []
        self.bound: list[Any] = []
        """Objects that functions are bound to: they stay, and their attributes are places."""
        self.machine: list[tuple[Place, Any]] = []
        """Names that stand for something of the machine, and for what."""
        self._of_machine = {id(each): each for each in of_machine}
        self._met: dict[int, Any] = {}
        self._names: set[tuple[int, str]] = set()
        self._modules: list[types.ModuleType] = []
        self._attributes: set[str] = set()  # that code reads of something, a module maybe
        roots = list(functions)
        self._own = {_package(_home(root)) for root in roots} - _TOOLS
        for root in roots:
            self._follow_bound(root)
        self._follow_modules()

    def _is_new(self, thing: Any) -> bool:
        if id(thing) in self._met or len(self.places) >= PLACES_MAX:
            return False
        self._met[id(thing)] = thing
        return True

    def _add(self, place: Place) -> None:
        """A place, unless nothing else can be put there: members of an enum, say."""
        try:
            place.set(place.get())
        except Exception:  # noqa: BLE001  # a class of users may refuse in any way
            return
        self.places.append(place)

    # -- following ----------------------------------------------------------------------------

    def _follow(self, value: Any) -> None:
        """Goes on into what code can call, and into the class of anything else."""
        match value:
            case types.MethodType():
                self._follow_bound(value)
            case functools.partial():
                self._follow_partial(value)
            case staticmethod() | classmethod():
                self._follow(value.__func__)
            case property():
                self._follow(value.fget)
                self._follow(value.fset)
            case dict():
                self._follow_some(value.values())
            case list() | tuple() | set() | frozenset():
                self._follow_some(value)
            case types.FunctionType() | types.ModuleType() | _CACHED() | type():
                self._follow_code(value)
            case _:
                self._follow_code(type(value))

    def _follow_code(self, value: Any) -> None:
        """Goes on into code that users have written, once."""
        home = value.__name__ if isinstance(value, types.ModuleType) else value.__module__
        if not self._is_users(home) or not self._is_new(value):
            return
        match value:
            case types.FunctionType():
                self._follow_function(value)
            case types.ModuleType():
                self._modules.append(value)
            case type():
                self._follow_class(value)
            case _:
                self._add(_Results(value))
                self._follow(value.__wrapped__)

    def _follow_some(self, values: Iterable[Any]) -> None:
        for each in islice(values, FOLLOWED_MAX):
            if isinstance(each, (*_FIXED, types.MethodType, functools.partial)):
                self._follow(each)
            else:
                self._follow(type(each))

    def _follow_bound(self, root: Any) -> None:
        """A function, or an object that stands for one: the query holds it, so it is not copied."""
        if isinstance(root, types.MethodType):
            self._follow(root.__func__)
            root = root.__self__
        if isinstance(root, (*_FIXED, functools.partial)):
            self._follow(root)
            return
        if self._is_new(root):
            self.bound.append(root)
            if hasattr(root, "__dict__"):
                self._add(_Attribute(root, "__dict__"))
                for value in list(vars(root).values()):
                    self._follow(value)
            for slot in (s for c in type(root).__mro__ for s in getattr(c, "__slots__", ())):
                self._add(_Attribute(root, slot))
            self._follow(type(root))

    def _follow_partial(self, value: functools.partial[Any]) -> None:
        if self._is_new(value):
            self.bound.append(value)
            self._add(_Arguments(value))
            for each in (value.func, *value.args, *value.keywords.values()):
                self._follow(each)

    def _follow_function(self, function: types.FunctionType) -> None:
        for name in ("__defaults__", "__kwdefaults__", "__dict__"):
            self._add(_Attribute(function, name))
        for cell in function.__closure__ or ():
            self._keep(_Cell(cell))
        for value in (*(function.__defaults__ or ()), *function.__dict__.values()):
            self._follow(value)
        for name in self._names_of(function.__code__):
            self._follow_name(function.__globals__, name)

    def _follow_name(self, names: dict[str, Any], name: str) -> None:
        if (id(names), name) not in self._names:
            self._names.add((id(names), name))
            self._keep(_Name(names, name), getattr(builtins, name, MISSING))

    def _follow_class(self, cls: type) -> None:
        for name, value in list(vars(cls).items()):
            if isinstance(value, types.MemberDescriptorType | types.GetSetDescriptorType):
                continue
            is_data = not isinstance(value, (*_FIXED, staticmethod, classmethod, property))
            if is_data and not (name.startswith("__") and name.endswith("__")):
                self._add(_Attribute(cls, name))
            self._follow(value)
        for base in cls.__bases__:
            self._follow(base)

    def _follow_modules(self) -> None:
        """What code reads of modules of users: by name, as nobody sees of what it is read."""
        while self._modules:
            modules, self._modules = self._modules, []
            for module in modules:
                for name in sorted(self._attributes & vars(module).keys()):
                    self._follow_name(vars(module), name)

    def _keep(self, place: Place, built_in: Any = MISSING) -> None:
        """A place, and what is there now; `built_in` is what is meant where nothing is."""
        value = place.get()
        meant = built_in if value is MISSING else value
        if id(meant) in self._of_machine:
            self.machine.append((place, meant))
            return
        if not isinstance(meant, _FIXED):
            self._add(place)
        self._follow(meant)

    # -- reading code -------------------------------------------------------------------------

    def _names_of(self, code: types.CodeType) -> Iterator[str]:
        """The names that code reads and binds in its module; functions in it count."""
        self._attributes.update(code.co_names)
        for step in dis.get_instructions(code):
            if step.opname in _READS:
                yield step.argval
            elif step.opname == "IMPORT_NAME" and step.argval in sys.modules:
                self._follow(sys.modules[step.argval])
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                yield from self._names_of(constant)

    def _is_users(self, module: str | None) -> bool:
        package = _package(module)
        if package in self._own:
            return True
        if package in sys.stdlib_module_names or package in _TOOLS:
            return False
        file = getattr(sys.modules.get(module or ""), "__file__", None)
        return file is not None and not _OF_INSTALLED & set(Path(file).parts)


def _home(function: Any) -> str | None:
    own: str | None = getattr(function, "__module__", None)
    if isinstance(function, functools.partial):
        return _home(function.func)
    return own if isinstance(own, str) else type(function).__module__


def _package(module: str | None) -> str:
    return (module or "").partition(".")[0]
