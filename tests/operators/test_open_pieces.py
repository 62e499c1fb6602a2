"""What was said beyond the stable can be taken back whole, and a wrong memory of it is found."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from gapless.operators.normal_form import NormalForm
from gapless.operators.open_pieces import OpenPieces
from gapless.operators.payloads import Payloads
from gapless.operators.pieces import Pieces, Rows
from gapless.protocol.elements import BEGIN
from gapless.protocol.errors import Bug, DecodeError
from gapless.protocol.schema import StreamSchema

SCHEMA = StreamSchema({"g": "string", "n": "int64"})


class Held:
    """Groups A and B; A answers 2 in [4,9), twice, and B 1 in [4,6)."""

    def __init__(self) -> None:
        groups, self.payloads = (
            Payloads(pa.schema([SCHEMA.payload.field("g")])),
            Payloads(SCHEMA.payload),
        )
        self.groups = groups.intern(pa.record_batch({"g": ["A", "B"]}))
        answers = pa.record_batch({"g": ["A", "B"], "n": [2, 1]}, schema=SCHEMA.payload)
        self.answers = self.payloads.intern(answers)
        self.open = OpenPieces(groups, self.payloads)
        self.open.fit()
        both = np.array([4, 4]), np.array([9, 6])
        pieces = Pieces(*both, self.groups, np.array([True, True]))
        self.open.keep(pieces, Rows(np.array([0, 1]), self.answers, np.array([2, 1])), until=6)

    def form(self) -> NormalForm:
        """What went out of it: A's answer, which ends at 9."""
        form = NormalForm(SCHEMA, self.payloads)
        one = self.answers[:1]
        form.revise(one, np.array([4]), np.array([9]), np.array([2]), BEGIN)
        return form


def test_a_piece_that_ends_by_the_stable_is_not_kept() -> None:
    held = Held()
    assert held.open.until(held.groups).tolist() == [9, BEGIN]
    position, payload, copies = held.open.rows(held.groups)
    assert (position.tolist(), copies.tolist()) == ([0], [2])
    assert payload.tolist() == held.answers[:1].tolist()


def test_what_is_taken_back_is_what_was_kept_from_the_stable_on_and_only_once() -> None:
    held = Held()
    payload, up, down, copies = held.open.take_back(held.groups, 6)
    assert payload.tolist() == held.answers[:1].tolist()
    assert (up.tolist(), down.tolist(), copies.tolist()) == ([9], [6], [2])
    assert held.open.until(held.groups).tolist() == [BEGIN, BEGIN]
    assert not len(held.open.take_back(held.groups, 6).payload)


def test_a_memory_of_something_else_than_what_went_out_is_found() -> None:
    held = Held()
    form = held.form()
    held.open.validate(held.groups, 6, form)
    with pytest.raises(Bug, match="ends before it"):
        held.open.validate(held.groups, 10, form)
    held.open.restore(held.groups, np.array([8, BEGIN]))
    with pytest.raises(Bug, match="is not what went out"):
        held.open.validate(held.groups, 6, form)
    held.open.restore(held.groups, np.array([9, 9]))
    with pytest.raises(Bug, match="until no time, or nothing until some"):
        held.open.validate(held.groups, 6, form)
    with pytest.raises(Bug, match="a group that is not there"):
        held.open.validate(held.groups[:1], 6, form)


def test_a_row_comes_back_once_with_its_copies() -> None:
    held = Held()
    held.open.take_back(held.groups, 6)
    twice = np.repeat(held.answers[:1], 2)
    with pytest.raises(DecodeError, match="a repeated row"):
        held.open.restore_rows(held.groups, twice, np.array([1, 1]))
