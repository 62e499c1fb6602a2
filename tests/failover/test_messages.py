"""Messages of wrong types are refused when they are made: nothing of them ever counts."""

from __future__ import annotations

from typing import Any

import pytest

from gapless.failover.messages import (
    Ack,
    Assign,
    Attach,
    Data,
    Drain,
    Fence,
    Hold,
    Retire,
    TakeCheckpoint,
)
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Misuse
from gapless.protocol.frame import Frame
from gapless.protocol.text import DEFAULT_SCHEMA
from tests.failover.mergers import R0

NOTHING = Frame.empty(DEFAULT_SCHEMA)
WRONG: list[tuple[type, tuple[Any, ...], str]] = [
    (Attach, (R0, BEGIN, None), "attach: tail None"),
    (Attach, (R0, BEGIN, "ins(A,1,5)"), "attach: tail"),
    (Attach, (None, BEGIN, NOTHING), "attach: session"),
    (Attach, (R0, 1.5, NOTHING), "attach: join_at"),
    (Data, (R0, 1, None), "data: frame"),
    (Data, (R0, True, NOTHING), "data: sequence"),
    (Data, ("r0.0", 1, NOTHING), "data: session"),
    (Ack, (R0, 1, None, BEGIN, BEGIN), "ack: sequence"),
    (Ack, (R0, 1, 0, None, BEGIN), "ack: durable_stable"),
    (Ack, (R0, 1, 0, BEGIN, "9"), "ack: feedback"),
    (Ack, (R0, None, 0, BEGIN, BEGIN), "ack: epoch"),
    (Hold, (1, None), "hold: at"),
    (Hold, (None, 1), "hold: term"),
    (Hold, (1, 1, None), "hold: version"),
    (Assign, (1, 1, ["m0.0"]), "assign: mergers"),
    (Assign, (1, None, ("m0.0",)), "assign: version"),
    (Fence, (1, "r0.0/1.1"), "fence: life"),
    (Retire, (None, R0.life, ""), "retire: term"),
    (TakeCheckpoint, (1, None), "take a checkpoint: name"),
    (Drain, (None,), "drain: term"),
]


@pytest.mark.parametrize(("kind", "given", "what"), WRONG)
def test_a_message_of_a_wrong_type_is_never_made(
    kind: type, given: tuple[Any, ...], what: str
) -> None:
    with pytest.raises(Misuse, match=what):
        kind(*given)
