"""The simulated network: late, lost, doubled, cut and clogged, in the directions that are said."""

import random

import pytest

from gapless.chaos.sim.network import ANYBODY, CLOGGED_MAX, STORM, Network, Pair, Weather

FINE = Weather(delay_ms=20, loss=0.0, repeat=0.0)
AB, BA = ("a", "b"), ("b", "a")


class Wire:
    """Sends messages over a network, and notes what becomes of each."""

    def __init__(self, weather: Weather = FINE, seed: int = 1) -> None:
        self.network = Network(random.Random(seed), weather)
        self.delays: list[int] = []

    def send(self, link: Pair = AB) -> str | None:
        return self.network.send(link, self.delays.append)


def test_every_message_comes_within_the_delay_and_they_overtake_each_other() -> None:
    wire = Wire()
    assert {wire.send() for _ in range(500)} == {None}
    assert len(wire.delays) == 500
    assert (min(wire.delays), max(wire.delays)) == (1, FINE.delay_ms)
    assert any(later < before for before, later in zip(wire.delays, wire.delays[1:], strict=False))


def test_some_are_lost_and_some_come_twice_as_often_as_the_weather_says() -> None:
    wire = Wire(Weather(20, loss=0.1, repeat=0.05))
    lost = [wire.send() for _ in range(5000)].count("lost")
    assert 400 < lost < 600
    assert 5000 - lost + 150 < len(wire.delays) < 5000 - lost + 320


def test_in_a_storm_the_weather_is_worse() -> None:
    wire = Wire()
    wire.network.storms += 1
    lost = [wire.send() for _ in range(1000)].count("lost")
    assert abs(lost - 1000 * STORM.loss) < 100
    assert max(wire.delays) > FINE.delay_ms
    wire.network.storms -= 1
    assert wire.send() is None


@pytest.mark.parametrize(
    ("link", "stopped"),
    [
        (AB, {AB}),
        (("a", ANYBODY), {AB, ("a", "c")}),
        ((ANYBODY, "b"), {AB, ("c", "b")}),
    ],
)
def test_a_cut_stops_one_direction_until_it_is_over(link: Pair, stopped: set[Pair]) -> None:
    wire = Wire()
    end = wire.network.trouble(wire.network.cut, [link])
    everything = {AB, BA, ("a", "c"), ("c", "a"), ("c", "b"), ("b", "c")}
    assert {each for each in everything if wire.send(each) == "cut off"} == stopped
    end()
    assert all(wire.send(each) is None for each in everything)


def test_a_link_that_two_faults_cut_is_cut_until_both_are_over() -> None:
    wire = Wire()
    first, second = (wire.network.trouble(wire.network.cut, [AB]) for _ in range(2))
    first()
    assert wire.send() == "cut off"
    second()
    assert wire.send() is None
    assert not wire.network.cut


def test_what_waits_at_a_clogged_link_comes_when_it_is_free() -> None:
    wire = Wire()
    end = wire.network.trouble(wire.network.clogged, [AB])
    assert [wire.send() for _ in range(5)] == [None] * 5
    assert wire.delays == []
    wire.send(BA)
    assert len(wire.delays) == 1
    end()
    assert len(wire.delays) == 6


def test_what_waits_at_one_clogged_link_goes_on_waiting_when_another_is_free() -> None:
    wire = Wire()
    here = wire.network.trouble(wire.network.clogged, [AB])
    there = wire.network.trouble(wire.network.clogged, [BA])
    wire.send(AB)
    there()
    assert wire.delays == []
    here()
    assert len(wire.delays) == 1


def test_a_clogged_link_holds_a_bounded_number() -> None:
    wire = Wire()
    wire.network.trouble(wire.network.clogged, [AB])
    assert all(wire.send() is None for _ in range(CLOGGED_MAX))
    assert wire.send() == "lost at a clogged link"


def test_the_same_seed_gives_the_same_fates() -> None:
    weather = Weather(60, loss=0.1, repeat=0.05)
    one, other, another = Wire(weather), Wire(weather), Wire(weather, seed=2)
    for wire in (one, other, another):
        for _ in range(200):
            wire.send()
    assert one.delays == other.delays != another.delays
