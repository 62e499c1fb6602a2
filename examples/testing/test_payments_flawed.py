"""The same query with a bug that no ordinary test finds: what the simulator says of it.

It comes first: a run in this process leaves its ids in `seen`, and the next one finds them there.
"""

import pytest
from payments_flawed import query
from test_payments import events

import gapless as gl
from gapless.testing import SimulationFailed


def test_the_simulator_finds_it(simulate):
    with pytest.raises(SimulationFailed) as failed:
        simulate(query, events())
    print(failed.value)


def test_an_ordinary_test_finds_nothing():
    assert gl.table(query, events()).to_pylist() == [{"payments": 30, "cents": 5_235}]
