"""What is desired: only what can be run is ever written."""

from typing import Any

import pytest

from gapless.failover.job.desired import Desired, Scale, Stop, Switch
from gapless.failover.messages import Fetch, Token
from gapless.failover.subscriber.tokens import check
from gapless.protocol.elements import BEGIN, INF
from gapless.protocol.errors import Misuse, TokenError


@pytest.mark.parametrize(
    "wrong",
    [
        {"plans": "wid"},
        {"plans": (5,)},
        {"plans": ()},
        {"plans": tuple(map(str, range(1001)))},
        {"state": "bogus"},
        {"replicas": 0},
        {"replicas": True},
        {"mergers": 3},
    ],
)
def test_what_cannot_run_is_not_desired(wrong: dict[str, Any]) -> None:
    with pytest.raises(Misuse):
        Desired(**{"replicas": 3, "plans": ("plan",), **wrong})


@pytest.mark.parametrize("change", [None, 42, "stop", Desired(1, ("plan",))])
def test_what_is_no_change_changes_nothing(change: Any) -> None:
    with pytest.raises(Misuse, match="is not a change"):
        Desired(3, ("plan",)).changed(change)


@pytest.mark.parametrize("at", ["x", None, 1.5, INF, BEGIN - 1])
def test_a_switch_is_at_a_time(at: Any) -> None:
    with pytest.raises(Misuse, match="switch at"):
        Switch(("plan",), at)


def test_a_change_is_what_it_says() -> None:
    desired = Desired(3, ("plan",), mergers=2)
    assert desired.changed(Scale(4)).replicas == 4
    assert desired.changed(Switch(("other",))).plans == ("other",)
    assert desired.changed(Stop(drain=True)).state == "draining"
    with pytest.raises(Misuse, match="the job is stopped"):
        desired.changed(Stop()).changed(Scale(1))


@pytest.mark.parametrize("wrong", [{"offset": 2**63}, {"epoch": True}, {"stable": None}])
def test_a_token_of_no_place_is_none(wrong: dict[str, Any]) -> None:
    token = Token("m0.0", 1, 2, 3)._replace(**wrong)
    with pytest.raises(TokenError):
        check({"0": token})


def test_nobody_fetches_from_beyond_all_places() -> None:
    with pytest.raises(Misuse):
        Fetch("s", Token("m0.0", 1, 2**63, 3))
