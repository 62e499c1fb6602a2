"""Algorithm R3 of the paper, element by element: (vs, payload) is a key.

    in2t    index[(vs, payload)] = {0: 20, 1: 25, OUT: 20}

A node has the end that each input gives the event, and the output's; an absent input lacks it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gapless.merge.policy import Policy, Quorum
from gapless.merge.reference_case import OUT, Case, Input, Key, Row, final, violation
from gapless.protocol.elements import INF, Adjust, Insert


class R3(Case):
    """Algorithm R3."""

    def __init__(self, policy: Policy, inputs: Mapping[int, Input]) -> None:
        super().__init__(policy, inputs)
        self.index: dict[Key, dict[int, int]] = {}

    def check(self, rows: Sequence[Row], r: Input) -> None:
        """Plays the rows through on what the input holds."""
        mine = {key: f[r.number] for key, f in self.index.items() if r.number in f}
        for y in rows:
            key = (y.vs, y.payload)
            if y.vs < self.max_stable and key not in self.index:
                continue  # settled
            if mine.get(key) != (None if isinstance(y, Insert) else y.was):
                raise violation(y, f"for this input the event ends at {mine.get(key)}")
            mine[key] = y.ve
            if y.ve == y.vs:
                del mine[key]

    def insert(self, y: Insert, r: Input) -> list[Row]:
        """Lines 3 to 10, with the policies of location 2."""
        f = self.index.get((y.vs, y.payload))
        if f is None:
            if y.vs < self.max_stable:
                return self.heard(y, r)
            f = self.index[y.vs, y.payload] = {}
        f[r.number] = y.ve
        if OUT in f:
            return self.follow(y, f)
        if y.vs >= self.max_stable and (self.favours or self.quorum(f)):
            f[OUT] = y.ve
            return [y]
        return []

    def adjust(self, y: Adjust, r: Input) -> list[Row]:
        """Lines 11 to 14, with the policies of location 1."""
        f = self.index.get((y.vs, y.payload))
        if f is None:
            return self.heard(y, r)
        f[r.number] = y.ve
        if y.ve == y.vs:
            del f[r.number]
        return self.follow(y, f) if OUT in f else []

    def heard(self, y: Row, r: Input) -> list[Row]:
        """A row of a settled key: nothing goes out, but the input may come round."""
        question = (r.number, (y.vs, y.payload))
        if question in self.questions:
            self.questions[question] = (y.ve, self.questions[question][1])
        return []

    def quorum(self, f: dict[int, int]) -> bool:
        """Whether, for policy quorum, enough inputs hold the event."""
        insert = self.policy.insert
        if not isinstance(insert, Quorum):
            return False
        return sum(n in f for n in self.inputs) >= min(insert.k, len(self.inputs))

    def follow(self, y: Row, f: dict[int, int]) -> list[Row]:
        """Policies at_once, leading: the output takes the end that a row gives."""
        lower = y.vs if y.ve == y.vs else min(y.ve, f[OUT])
        if not self.follows or y.ve == f[OUT] or lower < self.max_stable:
            return []
        return self.put_right((y.vs, y.payload), f, y.ve)

    def put_right(self, key: Key, f: dict[int, int], ve: int) -> list[Row]:
        """Gives the output another end: `vs` for none."""
        vs, payload = key
        was = f.get(OUT)
        f[OUT] = ve
        if ve == vs:
            del f[OUT]
        return [Insert(payload, vs, ve) if was is None else Adjust(payload, vs, was, ve)]

    def stable(self, t: int, r: Input) -> list[Row]:
        """Lines 15 to 30."""
        out: list[Row] = []
        if self.policy.insert == "fully_frozen":
            out += self.fully_froze(r)
        if self.policy.adjust == "leading":
            out += self.follow_all(r)
        for key, f in list(self.index.items()):
            vs, _ = key
            if vs >= t:
                continue
            in_ve = f.get(r.number, vs)
            out_ve = f.get(OUT, vs)
            if in_ve != out_ve and (in_ve < t or out_ve < t or t == INF):
                if min(in_ve, out_ve) >= self.max_stable:
                    out += self.put_right(key, f, in_ve)
                else:
                    self.divergences += 1
            if f.get(OUT, vs) < t or t == INF:
                self.ask(key, f, r)
                del self.index[key]
        self.max_stable = t
        return out

    def ask(self, key: Key, f: dict[int, int], r: Input) -> None:
        """A key is settled: an input that gives it another end has to come round, or diverges."""
        for n in self.inputs:
            if n != r.number and n in f and f[n] != f.get(OUT, key[0]):
                self.questions[n, key] = (f[n], f.get(OUT, key[0]))

    def fully_froze(self, r: Input) -> list[Row]:
        """What `r` has fully frozen and the output lacks."""
        out: list[Row] = []
        for key, f in self.index.items():
            ve = f.get(r.number)
            if ve is not None and OUT not in f and key[0] >= self.max_stable and final(ve, r):
                out += self.put_right(key, f, ve)
        return out

    def follow_all(self, r: Input) -> list[Row]:
        """Every end that `r` and the output give differently, and that may still move."""
        out: list[Row] = []
        for key, f in self.index.items():
            in_ve, out_ve = f.get(r.number), f.get(OUT)
            if in_ve is None or out_ve is None or in_ve == out_ve:
                continue
            if min(in_ve, out_ve) >= self.max_stable:
                out += self.put_right(key, f, in_ve)
        return out

    def half_froze(self, r: Input) -> list[Row]:
        """What `r` has half frozen and the output lacks."""
        out: list[Row] = []
        for key, f in self.index.items():
            if self.max_stable <= key[0] < r.stable and r.number in f and OUT not in f:
                out += self.put_right(key, f, f[r.number])
        return out

    def limit(self, r: Input) -> int:
        """The smallest start of what `r` has half frozen."""
        half = [
            vs
            for (vs, _), f in self.index.items()
            if r.number in f and vs < r.stable and not final(f[r.number], r)
        ]
        return min(half, default=INF)

    def unfrozen(self, r: Input) -> int:
        """Its events of live keys that no stable has reached."""
        return sum(r.number in f for (vs, _), f in self.index.items() if vs >= self.max_stable)

    def forget_input(self, number: int) -> None:
        """Its ends go from every node."""
        super().forget_input(number)
        for f in self.index.values():
            f.pop(number, None)
