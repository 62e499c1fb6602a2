"""The inputs of a trial: each says a stream frame by frame, and skips what it need not say.

    its stream           ins(A,1,5) stable(2)    ins(B,3,9)    adj(B,3,9,4) stable(6)
    under feedback 5     ins(A,1,5) stable(2)    -             stable(6)

B ends at 4 when all is said, so both of its rows are needless; A ends at 5, which is not below 5. A
real input knows of few ends that they are final. A teller has the whole stream, so it knows
of all, and a trial can let it skip exactly what is allowed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gapless.merge.choose import StreamProperties
from gapless.protocol.elements import BEGIN, Adjust, Insert, Payload, Stable
from gapless.protocol.errors import Misuse
from gapless.protocol.frame import Frame
from gapless.protocol.schema import StreamSchema
from gapless.protocol.tdb import Tdb

Row = Insert | Adjust


@dataclass(slots=True, eq=False)
class Story:
    """The rows of one stream that lead to one event, or to none."""

    end: int | None = None
    """The end that the event has when all is said; None where it was removed."""
    begun: bool = False
    """Whether any of it has been said."""


class Teller:
    """One input: says a stream frame by frame, and skips what it need not say.

    Feedback f means that events with a final end below f are settled. A teller knows the rest of
    its stream, so it knows which ends are final. It skips the whole of such an event or, where
    (payload, vs) is a key, also the rest of one that it has begun.
    """

    def __init__(self, frames: Sequence[Frame], join_at: int = BEGIN, key: bool = True) -> None:
        if not frames:
            raise Misuse("a teller needs one frame at least, for its schema")
        self.join_at = join_at
        self.complete_from = join_at
        """It tells every event with an end from here on; feedback that it obeyed raises this."""
        self.key = key
        self.pace = 1
        """How often it speaks, in relation to others."""
        self.properties: StreamProperties | None = None
        """What it declares to be."""
        self._left = list(zip(frames, _stories(frames), strict=True))[::-1]
        self._said = Tdb(frames[0].schema)
        self._withdrawn: set[tuple[Payload, int]] = set()
        self._feedback = BEGIN

    @property
    def schema(self) -> StreamSchema:
        """The schema of its stream."""
        return self._said.schema

    @property
    def done(self) -> bool:
        """Whether it has said everything."""
        return not self._left

    @property
    def stable(self) -> int:
        """The last stable that it said."""
        return self._said.stable

    def heed(self, feedback: int) -> None:
        """Hears that events with `ve` below `feedback` are settled."""
        self._feedback = feedback

    def speak(self) -> Frame:
        """Its next frame, without the rows that it skips."""
        frame, rows = self._left.pop()
        told = np.ones(len(frame), np.bool_)
        for i, (row, story) in enumerate(rows):
            if not self.may_skip(row, story, self._feedback):
                story.begun = True
                continue
            told[i] = False
            self.complete_from = max(self.complete_from, self._feedback)
            if story.begun:  # so what it said last of the event is not its word on it
                self._withdrawn.add((row.payload, row.vs))
        if not told.all():
            frame = frame.take(told, frame.stable)
        self._said.fold(frame)
        return frame

    def may_skip(self, row: Row, story: Story, feedback: int) -> bool:  # noqa: ARG002  # for others
        """Whether feedback makes `row` needless. Tellers that break the rule override this."""
        final = story.end is not None and story.end < feedback
        return final and (self.key or not story.begun)

    def claims(self) -> Tdb:
        """The table that it vouches for: what it said, without events that it stopped telling."""
        if not self._withdrawn:
            return self._said
        claims = Tdb(
            self._said.schema,
            [e for e in self._said.events if (e.payload, e.vs) not in self._withdrawn],
        )
        claims.stable = self._said.stable
        return claims


def _stories(frames: Sequence[Frame]) -> list[list[tuple[Row, Story]]]:
    """Each frame's rows, with the story that each belongs to."""
    open_stories: dict[tuple[Payload, int], list[Story]] = defaultdict(list)
    told = []
    for frame in frames:
        rows: list[tuple[Row, Story]] = []
        for row in frame.elements():
            if isinstance(row, Stable):
                continue
            stories = open_stories[row.payload, row.vs]
            if isinstance(row, Insert):
                story = Story()
                stories.append(story)
            else:
                # An adjust of nothing is illegal: it begins a story, and fails when it is told.
                story = next((s for s in stories if s.end == row.was), Story())
            story.end = None if row.ve == row.vs else row.ve
            if story.end is None and story in stories:
                stories.remove(story)
            rows.append((row, story))
        told.append(rows)
    return told
