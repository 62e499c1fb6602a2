"""How large the windows bench measures: full sizes, to which the bars belong, and quick ones."""

from __future__ import annotations

from dataclasses import dataclass

from gapless.bench.harness import REPEAT, Context


@dataclass(frozen=True)
class Scale:
    """Sizes of one run of the bench."""

    repeat: int
    flows: int
    """Rows of which rates are measured."""
    cases: int
    """And as many products, in patterns."""
    overlapping: int
    """Rows in figure 6-10."""
    slides: tuple[int, ...]
    """There, ascending to 4000."""
    pairs: tuple[int, ...]
    """Of source and destination, in figure 8-7, ascending."""
    minute_rows: int
    """Rows of a minute there."""
    minutes: int
    """Measured there, after those that warm it up."""
    banded_s: int
    """Seconds of rows in figure 6-11."""
    blocks: int
    """Of 490 s, in figure 6-12: over twice its windows and the largest slack."""
    held_min: int
    """Minutes of rows in figures 8-4 and 8-5: more than the longest that a row is held."""
    union_s: int
    """Seconds of rows in figure 8-8: over twice its windows and the largest skew."""
    union_skews_s: tuple[int, ...]
    """Ascending from 0, as are the others."""
    join_s: int
    join_skews_s: tuple[int, ...]
    """Figure 8-9."""
    rare_s: int
    rare_skews_s: tuple[int, ...]
    """Figure 8-10."""
    skewed_s: int
    """Seconds of rows in figure 6-19: several times its windows and skews."""
    control_skews_s: tuple[int, ...]
    switched: int
    """Elements in figure 9 of the LMerge paper."""
    counted: int
    """Rows that its figure 4 counts."""
    counted_wide: int
    """Rows that its figure 6 counts: five of them make an event with 1,000 bytes."""
    live_most: int
    """Live events in its table IV: 1,024 times a power of four."""
    merged: int
    """Events of an input there, by number of inputs."""
    inputs: tuple[int, ...]
    """Of a merger, ascending."""
    repeat_curve: int
    """Runs of each point of a curve: fewer, for a curve has many."""

    @staticmethod
    def of(context: Context) -> Scale:
        """The sizes that `context` asks for."""
        if context.quick:
            return Scale(
                repeat=1,
                flows=40_000,
                cases=20_000,
                overlapping=10_000,
                slides=(40, 4_000),
                pairs=(300, 2_000),
                minute_rows=20_000,
                minutes=1,
                banded_s=90,
                blocks=5,
                held_min=9,
                union_s=130,
                union_skews_s=(0, 20),
                join_s=30,
                join_skews_s=(0, 20),
                rare_s=130,
                rare_skews_s=(0, 10),
                skewed_s=20,
                control_skews_s=(0, 10),
                switched=20_000,
                counted=1_000,
                counted_wide=20_000,
                live_most=4_096,
                merged=4_000,
                inputs=(2, 4),
                repeat_curve=1,
            )
        return Scale(
            repeat=REPEAT,
            flows=2_000_000,
            cases=500_000,
            overlapping=256_000,
            slides=(1, 4, 16, 50, 200, 999, 2_000, 3_000, 3_999, 4_000),
            pairs=(66_000, 130_000, 260_000, 520_000),
            minute_rows=4_000_000,
            minutes=2,
            banded_s=600,
            blocks=20,
            held_min=15,
            union_s=180,
            union_skews_s=(0, 10, 20, 30, 40),
            join_s=130,
            join_skews_s=(0, 25, 50, 100),
            rare_s=180,
            rare_skews_s=(0, 2, 5, 10),
            skewed_s=60,
            control_skews_s=(0, 2, 5, 10),
            switched=200_000,
            counted=4_000,
            counted_wide=100_000,
            live_most=65_536,
            merged=50_000,
            inputs=(2, 4, 6, 8, 10),
            repeat_curve=3,
        )
