"""How large the engine bench measures: full sizes, to which the bars belong, and quick ones."""

from __future__ import annotations

from dataclasses import dataclass

from gapless.bench.harness import REPEAT, Context


@dataclass(frozen=True)
class Scale:
    """Sizes of one run of the bench."""

    flows: int
    """Of W1 and W2."""
    side: int
    """Rows of each of W3's inputs."""
    repeat: int
    repeat_curve: int
    """Runs of each point of a curve: fewer, for a curve has many."""
    latency_flows: int
    """In 100-row frames of which each is timed."""
    windowed: int
    """Rows in figure 6-10."""
    paned: int
    """Rows in figure 6-15: several frames."""
    overlaps: tuple[int, ...]
    """Figure 6-10: RANGE / SLIDE, ascending."""
    pane_rows: tuple[int, ...]
    """Figure 6-15: rows in a pane, ascending."""
    window_panes: tuple[int, ...]
    """Figure 6-15: panes in a window, ascending."""
    joined_s: int
    """Seconds of event time in figures 7-6 and 7-7."""
    join_windows_s: tuple[int, ...]
    """Ascending."""
    union_s: int
    """Seconds of event time in figure 8-8: over twice its windows and the largest skew."""
    skews_s: tuple[int, ...]
    """Ascending, from 0."""

    @staticmethod
    def of(context: Context) -> Scale:
        """The sizes that `context` asks for."""
        if context.quick:
            return Scale(
                flows=160_000,
                side=20_000,
                repeat=1,
                repeat_curve=1,
                latency_flows=60_000,
                windowed=4_000,
                paned=4_000,
                overlaps=(1, 4),
                pane_rows=(20, 40),
                window_panes=(2, 5),
                joined_s=12,
                join_windows_s=(1, 3),
                union_s=130,
                skews_s=(0, 20),
            )
        return Scale(
            flows=5_000_000,
            side=1_000_000,
            repeat=REPEAT,
            repeat_curve=3,
            latency_flows=1_500_000,
            windowed=64_000,
            paned=2_048_000,
            overlaps=(1, 2, 4, 10, 20, 40, 100),
            pane_rows=(5, 10, 20, 40, 80, 160),
            window_panes=(2, 5, 10, 20),
            joined_s=40,
            join_windows_s=(1, 3, 5, 7, 9),
            union_s=180,
            skews_s=(0, 10, 20, 30, 40),
        )
