"""Tallies: what each life has done at a merger, and the newest divergences by the lives' names.

    LMerge    input 7 disagrees, input 3 is alone      numbers, one for each session
    here      r0.2/1.9 disagrees, r0.1/1.3 is alone    lives, through all their sessions

A life that attaches anew is another input of the LMerge, under another number; what it did before
is carried over in its input. A number says nothing once its input has left, so names are taken when
a divergence is seen.
"""

from __future__ import annotations

from collections import deque

from gapless.failover.merger.inputs import AttachedInput, AttachedInputs, Tally
from gapless.failover.messages import Life
from gapless.failover.statuses import SAMPLES_MAX, TEXT_CHARS_MAX, DivergenceReport, InputStatus
from gapless.merge.divergence import Divergence
from gapless.merge.lmerge import LMerge


class Tallies:
    """Of one life of a merger."""

    def __init__(self, merge: LMerge, inputs: AttachedInputs) -> None:
        self._merge = merge
        self._inputs = inputs
        self._seen = merge.divergences.count
        self._newest: deque[DivergenceReport] = deque(maxlen=SAMPLES_MAX)

    def of(self, attached: AttachedInput) -> Tally:
        """All that the life of an input has done here."""
        divergences, before = self._merge.divergences, attached.before
        return Tally(
            before.diverged + divergences.by_input[attached.number],
            before.outvoted + divergences.outvoted[attached.number],
            before.led + self._merge.led(attached.number),
        )

    def inputs(self) -> tuple[InputStatus, ...]:
        """Every life that is attached."""
        return tuple(
            InputStatus(
                life,
                self._merge.input_stable(attached.number),
                attached.state == "qualified",
                *self.of(attached),
            )
            for life, attached in self._inputs.by_life.items()
        )

    @property
    def newest(self) -> tuple[DivergenceReport, ...]:
        """The newest divergences, the last one last."""
        return tuple(self._newest)

    def look(self, offset: int) -> None:
        """Names what has come up since the last look; the output has `offset` durable rows."""
        divergences = self._merge.divergences
        more, self._seen = divergences.count - self._seen, divergences.count
        if more <= 0:
            return
        lives = {attached.number: life for life, attached in self._inputs.by_life.items()}
        for sample in list(divergences.newest)[-more:]:
            life, odd = lives.get(sample.input), lives.get(sample.odd)
            text = _text(sample, life, odd, offset)
            self._newest.append(DivergenceReport(life, odd, sample.vs, text[:TEXT_CHARS_MAX]))


def _text(sample: Divergence, life: Life | None, odd: Life | None, offset: int) -> str:
    """The divergence in words; long payloads come last, so that the names are never cut off."""
    who = "the journal of the peer" if life is None else str(life)
    alone = "" if odd is None else f"; {odd} is alone with its version"
    versions = str(sample).replace(f"input {sample.input} says", f"{who} says", 1)
    return f"{who} differs at {sample.vs}, by row {offset} of the output{alone}: {versions}"
