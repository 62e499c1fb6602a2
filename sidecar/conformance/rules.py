"""The rules of a producer, by their numbers in docs/sidecar.md, and what a breach of one is."""

from __future__ import annotations

from typing import Literal

from gapless.protocol.errors import GaplessError

WORKLOAD = 0
"""The number of what is no rule: the client does not push what it is to push here."""
RULES: dict[int, str] = {
    WORKLOAD: "the client pushes the workload",
    1: "attach comes first, once, with an incarnation that is one",
    2: "sequences count from 1 without gaps",
    3: "no more frames are under way than there are credits",
    4: "only what both stables have passed is forgotten",
    5: "all that is not settled is told again",
    6: "a tail has the frames that it says, its stable in the last",
    7: "promises are kept",
    8: "bodies and checksums are what they say",
    9: "detach is last, and its answer is waited for",
    10: "it goes by how a call ends",
}

Rule = Literal[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]


class RuleBreach(GaplessError):
    """The client broke a rule."""

    def __init__(self, rule: Rule, sentence: str) -> None:
        super().__init__(f"rule {rule}: {sentence}" if rule else sentence)
        self.rule = rule
        self.sentence = sentence
