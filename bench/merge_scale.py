"""How large the merge bench measures: full sizes, to which the bars belong, and quick ones."""

from __future__ import annotations

from dataclasses import dataclass

from gapless.bench.harness import REPEAT, Context


@dataclass(frozen=True)
class Scale:
    """Sizes of one run of the bench."""

    events: int
    """Events of an input with a narrow payload, where 3 inputs are merged."""
    events_wide: int
    """Events of an input where up to 10 of them carry 1,000-byte strings: four lifetimes long, and
    0.4 GB of frames."""
    live: int
    repeat: int
    repeat_curve: int
    """Runs of each point of a curve: fewer, for a curve has many."""
    inputs: tuple[int, ...]
    """Numbers of inputs, ascending, for what varies them."""

    @staticmethod
    def of(context: Context) -> Scale:
        """The sizes that `context` asks for."""
        if context.quick:
            return Scale(6_000, 2_000, live=400, repeat=1, repeat_curve=1, inputs=(2, 4))
        return Scale(
            events=200_000,
            events_wide=40_000,
            live=10_000,
            repeat=REPEAT,
            repeat_curve=3,
            inputs=(2, 4, 6, 8, 10),
        )
