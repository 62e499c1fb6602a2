"""Algorithm R4 of the paper, element by element: the table is a multiset.

    in3t    index[(vs, payload)] = {0: Counter({20: 2, 30: 1}), OUT: Counter({20: 2})}

A node has the ends that each input gives its events of that key, counted, and the output's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from gapless.merge.policy import Policy, Quorum
from gapless.merge.reference_case import OUT, Case, Input, Key, Row, final, violation
from gapless.protocol.elements import INF, Adjust, Insert


class R4(Case):
    """Algorithm R4."""

    def __init__(self, policy: Policy, inputs: Mapping[int, Input]) -> None:
        super().__init__(policy, inputs)
        self.index: dict[Key, dict[int, Counter[int]]] = {}

    def check(self, rows: Sequence[Row], r: Input) -> None:
        """Plays the rows through on what the input holds."""
        mine = {key: Counter(f[r.number]) for key, f in self.index.items() if r.number in f}
        for y in rows:
            key = (y.vs, y.payload)
            if y.vs < self.max_stable and key not in self.index:
                continue  # settled
            held = mine.setdefault(key, Counter())
            if isinstance(y, Adjust):
                if not held[y.was]:
                    raise violation(y, "this input has no such event")
                held[y.was] -= 1
            if y.ve != y.vs:
                held[y.ve] += 1

    def insert(self, y: Insert, r: Input) -> list[Row]:
        """Lines 3 to 11, with the policies of location 2."""
        f = self.index.get((y.vs, y.payload))
        if f is None:
            if y.vs < self.max_stable:
                return []
            f = self.index[y.vs, y.payload] = {OUT: Counter()}
        f.setdefault(r.number, Counter())[y.ve] += 1
        if y.vs < self.max_stable or f[r.number].total() <= f[OUT].total():
            return []
        if not self.favours and not self.quorum(f):
            return []
        f[OUT][y.ve] += 1
        return [y]

    def adjust(self, y: Adjust, r: Input) -> list[Row]:
        """Lines 12 to 15: `was` counts one less, `ve` one more."""
        f = self.index.get((y.vs, y.payload))
        if f is None:
            return []
        mine, out = f[r.number], f[OUT]
        mine[y.was] -= 1
        if y.ve != y.vs:
            mine[y.ve] += 1
        removal = y.ve == y.vs
        if not self.follows or (y.vs if removal else min(y.was, y.ve)) < self.max_stable:
            return []
        if out[y.was] > mine[y.was] and (removal or out[y.ve] < mine[y.ve]):
            return self.put_right((y.vs, y.payload), f, y.was, y.ve)
        return []

    def quorum(self, f: dict[int, Counter[int]]) -> bool:
        """Whether, for policy quorum, enough inputs hold more of the key than the output does."""
        insert = self.policy.insert
        if not isinstance(insert, Quorum):
            return False
        more = [n for n in self.inputs if n in f and f[n].total() > f[OUT].total()]
        return len(more) >= min(insert.k, len(self.inputs))

    def put_right(
        self, key: Key, f: dict[int, Counter[int]], was: int | None, ve: int
    ) -> list[Row]:
        """Moves one event of the output from end `was` (None: a new one) to `ve` (`vs`: none)."""
        vs, payload = key
        if was is not None:
            f[OUT][was] -= 1
        if ve != vs:
            f[OUT][ve] += 1
        return [Insert(payload, vs, ve) if was is None else Adjust(payload, vs, was, ve)]

    def lacks(self, f: dict[int, Counter[int]], r: Input) -> tuple[list[int], list[int]]:
        """The ends from the old stable on that the output lacks, and those it has too often."""
        mine, out = f.get(r.number, Counter()), f[OUT]
        deficits = sorted(ve for ve in (mine - out).elements() if ve >= self.max_stable)
        surplus = sorted(ve for ve in (out - mine).elements() if ve >= self.max_stable)
        return deficits, surplus

    def stable(self, t: int, r: Input) -> list[Row]:
        """Lines 16 to 30."""
        out: list[Row] = []
        if self.policy.insert == "fully_frozen":
            out += self.fully_froze(r)
        for key, f in list(self.index.items()):
            vs, _ = key
            if vs >= t:
                continue
            if vs >= self.max_stable:
                out += self.adjust_output_count(key, f, r)
            out += self.adjust_output(key, f, t, r)
            if t == INF or not any(n and ve >= t for ve, n in f[OUT].items()):
                del self.index[key]
        self.max_stable = t
        return out

    def adjust_output_count(self, key: Key, f: dict[int, Counter[int]], r: Input) -> list[Row]:
        """As many events in the output as in the acting input (lines 20-22)."""
        deficits, surplus = self.lacks(f, r)
        more = len(deficits) - len(surplus)
        out: list[Row] = []
        for ve in deficits[: max(more, 0)]:
            out += self.put_right(key, f, None, ve)
        for was in surplus[: max(-more, 0)]:
            out += self.put_right(key, f, was, key[0])
        return out

    def adjust_output(self, key: Key, f: dict[int, Counter[int]], t: int, r: Input) -> list[Row]:
        """The ends below `t` as the acting input has them (lines 23-26)."""
        deficits, surplus = self.lacks(f, r)
        self.divergences += abs(len(deficits) - len(surplus))
        out: list[Row] = []
        for was, ve in zip(surplus, deficits, strict=False):
            if min(was, ve) < t or t == INF:
                out += self.put_right(key, f, was, ve)
        return out

    def fully_froze(self, r: Input) -> list[Row]:
        """What `r` has fully frozen and the output lacks."""
        out: list[Row] = []
        for key, f in self.index.items():
            if key[0] >= self.max_stable:
                for ve in self.lacks(f, r)[0]:
                    if final(ve, r):
                        out += self.put_right(key, f, None, ve)
        return out

    def half_froze(self, r: Input) -> list[Row]:
        """What `r` has half frozen and the output lacks."""
        out: list[Row] = []
        for key, f in self.index.items():
            if self.max_stable <= key[0] < r.stable and r.number in f:
                more = f[r.number].total() - f[OUT].total()
                for ve in self.lacks(f, r)[0][: max(more, 0)]:
                    out += self.put_right(key, f, None, ve)
        return out

    def limit(self, r: Input) -> int:
        """The smallest start of what `r` has half frozen."""
        half = [
            vs
            for (vs, _), f in self.index.items()
            if vs < r.stable
            and any(n and not final(ve, r) for ve, n in f.get(r.number, Counter()).items())
        ]
        return min(half, default=INF)

    def unfrozen(self, r: Input) -> int:
        """Its events of live keys that no stable has reached."""
        return sum(
            f[r.number].total()
            for (vs, _), f in self.index.items()
            if vs >= self.max_stable and r.number in f
        )

    def forget_input(self, number: int) -> None:
        """Its ends go from every node."""
        super().forget_input(number)
        for f in self.index.values():
            f.pop(number, None)
