"""A broken build takes the places of the product's machines, and leaves them again."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module
from typing import Any

import pytest

from gapless.chaos.drill.means.builds import PLACES, build_named, planted_build
from gapless.chaos.planted.builds import BROKEN_BUILDS
from gapless.chaos.sim.simulator import PRODUCTION, Build
from gapless.protocol.errors import Misuse


def there() -> dict[str, Any]:
    """By field of a build, the class that a shell would make now."""
    return {field: getattr(import_module(module), of) for field, (module, of) in PLACES.items()}


def classes(build: Build) -> dict[str, Any]:
    return {field.name: getattr(build, field.name) for field in fields(build)}


def test_every_machine_of_a_build_has_a_place_where_production_has_its_own() -> None:
    assert there() == classes(PRODUCTION)


@pytest.mark.parametrize("name", BROKEN_BUILDS)
def test_a_planted_build_is_there_for_a_while(name: str) -> None:
    with planted_build(name):
        assert there() == classes(BROKEN_BUILDS[name]) != classes(PRODUCTION)
    assert there() == classes(PRODUCTION)


def test_an_unknown_build_is_refused_and_nothing_has_changed() -> None:
    with pytest.raises(Misuse, match="no broken build 'perfect'; there are: no join gate"):
        build_named("perfect")
    with pytest.raises(Misuse), planted_build("perfect"):
        pass
    assert there() == classes(PRODUCTION)
