"""Every fault of a real cluster, by its name."""

from __future__ import annotations

from collections.abc import Mapping

from gapless.chaos.faults.fault import Fault

_KINDS: tuple[type[Fault], ...] = ()

FAULTS: Mapping[str, type[Fault]] = {kind.name: kind for kind in _KINDS}
