"""`kernel`: the native kernel and then its twin, for the tests that both must pass."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import pytest

from gapless.kernels import twin_chains, twin_ends, twin_key_table

NATIVE_MISSING = pytest.mark.skipif(
    find_spec("gapless.kernels._native") is None,
    reason="no native kernel here: install a C++ compiler and Gapless again",
)


@dataclass(frozen=True)
class Kernel:
    """One of the two implementations."""

    name: str
    KeyTable: Any
    Chains: Any
    raw: Any
    """Where its functions over arrays are."""


def load(name: str) -> Kernel:
    if name == "twin":
        return Kernel(name, twin_key_table.KeyTable, twin_chains.Chains, twin_ends)
    from gapless.kernels import _native, native

    return Kernel(name, native.KeyTable, native.Chains, _native)


@pytest.fixture(params=[pytest.param("native", marks=NATIVE_MISSING), "twin"], scope="session")
def kernel(request: pytest.FixtureRequest) -> Kernel:
    return load(request.param)


@pytest.fixture(scope="session")
def native() -> Kernel:
    if find_spec("gapless.kernels._native") is None:
        pytest.skip(NATIVE_MISSING.kwargs["reason"])
    return load("native")


@pytest.fixture(scope="session")
def twin() -> Kernel:
    return load("twin")
