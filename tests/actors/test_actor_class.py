"""What a list of processes says of an actor's process."""

from __future__ import annotations

from gapless.actors.actor_class import entitle


class Counter:
    def __init__(self) -> None:
        self.count = 0

    def add(self) -> int:
        self.count += 1
        return self.count


def test_an_actor_that_has_a_slot_is_called_by_it_and_is_otherwise_what_it_was() -> None:
    one, other = Counter(), Counter()
    one.add()
    entitle(one, "talkers", "r0.1")
    assert type(one).__name__ == "gapless talkers r0.1", "what Ray writes behind each call"
    assert type(one).__module__ == Counter.__module__
    assert isinstance(one, Counter)
    assert one.add() == 2
    assert type(other) is Counter
