"""Every public call that may wait is cancelled, timed out, interrupted or forgotten by some test.

A call that waits, and that no test leaves in the middle, is where a program loses a frame or a
thread for the first time. So each public method of what reads, writes and runs is in one list: with
the test that leaves it in the middle, or with why there is no middle.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import gapless
import gapless.client

TESTS = Path(__file__).parents[1]
MODULES = (gapless, gapless.client)
SUBSCRIBING, OUTPUTS = "actors/test_subscription.py::", "actors/test_outputs.py::"
CLIENTS, LOCAL = "sidecar/client/test_cancelling.py::", "gapless/test_interrupted.py::"
HANDLE = "actors/test_handle_interrupted.py::"

TIMED_OUT = "test_a_call_that_times_out_has_taken_nothing"
GIVEN_UP = "test_a_frame_that_comes_after_a_wait_was_given_up_is_given_to_the_next_one"
STRUCK = "test_a_call_that_is_interrupted_at_any_line_has_taken_nothing"
PUSH = "test_a_push_that_times_out_or_is_interrupted_keeps_what_has_gathered"
AWAITED_PUSH = "test_awaits_of_a_producer_that_are_cancelled_leave_no_thread_and_lose_nothing"
ASKED = "test_a_question_to_the_root_that_is_interrupted_may_be_asked_again"
READ = "test_a_read_of_a_journal_that_is_interrupted_has_not_moved_its_position"
APPEND = "test_an_append_that_is_interrupted_is_in_or_not_and_the_writer_says_so"

LEFT_BY: Mapping[str, str] = {
    "Subscription.__anext__": SUBSCRIBING + GIVEN_UP,
    "Subscription.__next__": SUBSCRIBING + STRUCK,
    "Subscription.next": SUBSCRIBING + TIMED_OUT,
    "Subscription.next_emit": SUBSCRIBING + STRUCK,
    "Subscription.__aiter__": SUBSCRIBING + "test_a_wait_whose_loop_is_over_takes_nothing",
    "Subscription.__iter__": SUBSCRIBING + "test_a_loop_that_is_left_goes_on_behind_what_it_had",
    "Subscription.close": SUBSCRIBING + "test_a_subscription_that_is_forgotten_ends",
    "Output.table": OUTPUTS + "test_a_table_of_an_output_that_is_interrupted_leaves_no_thread",
    "Output.last_table": OUTPUTS + "test_a_table_of_an_output_that_is_interrupted_leaves_no_thread",
    "Output.subscribe": OUTPUTS + "test_an_output_that_is_forgotten_while_it_is_followed_ends",
    "Consumer.__next__": CLIENTS + STRUCK,
    "Consumer.next": CLIENTS + TIMED_OUT,
    "Consumer.next_delivered": CLIENTS + STRUCK,
    "Consumer.elements": CLIENTS
    + "test_who_reads_elements_and_stops_between_two_has_the_token_before_that_frame",
    "Consumer.pandas": CLIENTS + "test_rows_as_data_frames_are_read_on_after_an_iterator_was_left",
    "Consumer.close": CLIENTS + "test_a_consumer_that_is_forgotten_ends",
    "AsyncConsumer.__anext__": CLIENTS + GIVEN_UP,
    "AsyncConsumer.next_delivered": CLIENTS + GIVEN_UP,
    "Producer.push": CLIENTS + PUSH,
    "Producer.insert": CLIENTS + PUSH,
    "Producer.adjust": CLIENTS + PUSH,
    "Producer.stable": CLIENTS + PUSH,
    "Producer.flush": CLIENTS + PUSH,
    "Producer.wait_durable": CLIENTS + "test_what_was_interrupted_is_said_again_once",
    "Producer.close": CLIENTS + PUSH,
    "Producer.__exit__": CLIENTS + PUSH,
    "AsyncProducer.push": CLIENTS + AWAITED_PUSH,
    "AsyncProducer.stable": CLIENTS + AWAITED_PUSH,
    "AsyncProducer.flush": CLIENTS + AWAITED_PUSH,
    "AsyncProducer.wait_durable": CLIENTS + AWAITED_PUSH,
    "AsyncProducer.close": CLIENTS + AWAITED_PUSH,
    "AsyncProducer.__aexit__": CLIENTS + AWAITED_PUSH,
    "Execution.__next__": LOCAL
    + "test_an_execution_that_is_interrupted_goes_on_whole_or_says_that_it_cannot",
    "Execution.to_arrow": LOCAL + "test_a_table_that_was_interrupted_is_computed_anew",
    "Execution.to_pandas": LOCAL + "test_a_table_that_was_interrupted_is_computed_anew",
    "Execution.to_parquet": LOCAL + "test_a_file_of_results_that_is_interrupted_is_not_there",
    "JournalReader.read": LOCAL + READ,
    "JournalReader.__iter__": LOCAL + READ,
    "JournalReader.follow": LOCAL
    + "test_one_who_follows_and_is_interrupted_while_nothing_comes_reads_on",
    "JournalWriter.append": LOCAL + APPEND,
    "table": LOCAL + "test_a_table_that_was_interrupted_is_computed_anew",
    "Job.status": HANDLE + ASKED,
    "Job.validate": HANDLE + ASKED,
    "Job.records": HANDLE + ASKED,
    "Job.scale": HANDLE + ASKED,
    "Job.stop": HANDLE + "test_a_stop_that_is_interrupted_may_be_waited_for_again",
    "Job.subscribe": HANDLE + ASKED,
    "Job.table": HANDLE + "test_a_table_that_is_interrupted_leaves_no_thread",
    "Job.cutover": HANDLE + ASKED,
    "Job.kill": HANDLE + ASKED,
}
"""By call, the test that leaves it in the middle."""

ENDS = "it ends what it is of: what it begins with is done, however it is left"
NOT_AT_ALL = "it waits for nobody"
WHOLE = "it computes from what it is given, which is not changed by it: it is called anew"
ON_DISK = "as `JournalWriter.append`: the writer counts what is synced, and is opened anew"
NO_MIDDLE: Mapping[str, str] = {
    "Subscription.validate": NOT_AT_ALL,
    "Output.status": WHOLE,
    "Consumer.__iter__": NOT_AT_ALL,
    "AsyncConsumer.__aiter__": NOT_AT_ALL,
    "AsyncConsumer.close": NOT_AT_ALL,
    "Producer.abandon": NOT_AT_ALL,
    "Producer.leave": NOT_AT_ALL,
    "Producer.not_taken": NOT_AT_ALL,
    "Producer.try_flush": NOT_AT_ALL,
    "Producer.try_push": NOT_AT_ALL,
    "Producer.validate": NOT_AT_ALL,
    "Execution.__iter__": NOT_AT_ALL,
    "Execution.close": ENDS,
    "JournalReader.close": NOT_AT_ALL,
    "JournalReader.keep": "a name in the journal's directory, written whole or not at all",
    "JournalReader.skip_before": NOT_AT_ALL,
    "JournalWriter.base_name": NOT_AT_ALL,
    "JournalWriter.close": ON_DISK,
    "JournalWriter.end": ON_DISK,
    "JournalWriter.promise": ON_DISK,
    "JournalWriter.put_base": ON_DISK,
    "JournalWriter.seal": ON_DISK,
    "JournalWriter.seal_full": ON_DISK,
    "JournalWriter.sync": ON_DISK,
    "JournalWriter.validate": NOT_AT_ALL,
    "frames_of": WHOLE,
    "execute": "nothing is read before a frame is asked for",
    "output": NOT_AT_ALL,
    "attach": "it looks a name up; nothing is held",
    "launch": "what was begun is ended: tests/actors/test_refused.py, tests/gapless on Ctrl-C",
    "resume": "as `launch`",
}
"""Calls that cannot be left in the middle, and why."""

CONTEXTS = ("__enter__", "__exit__", "__aenter__", "__aexit__")
"""They begin nothing, and end as `close` and `stop` do, unless they are in a list."""
WORKERS = (
    "Subscription",
    "Output",
    "Consumer",
    "AsyncConsumer",
    "Producer",
    "AsyncProducer",
    "Execution",
    "JournalReader",
    "JournalWriter",
    "Job",
)
"""Classes that read, write and run: all of their methods are in a list. Of others those that look
as if they wait are."""


def waits(function: Any) -> bool:
    """Whether a call looks as if it may wait."""
    return (
        inspect.iscoroutinefunction(function)
        or inspect.isgeneratorfunction(function)
        or inspect.isasyncgenfunction(function)
        or "timeout_s" in inspect.signature(function).parameters
    )


def calls() -> Iterator[str]:
    """Every public call that has to be in a list."""
    functions = ("execute", "table", "output", "launch", "attach", "resume")
    for module in MODULES:
        for name in module.__all__:
            public = getattr(module, name)
            if inspect.isfunction(public) and (name in functions or waits(public)):
                yield name
            if not inspect.isclass(public) or issubclass(public, BaseException):
                continue
            for own, member in inspect.getmembers(public, inspect.isfunction):
                if not member.__module__.startswith("gapless"):
                    continue
                is_special = own in ("__next__", "__anext__", "__iter__", "__aiter__", *CONTEXTS)
                if own.startswith("_") and not is_special:
                    continue
                if name in WORKERS or waits(member):
                    yield f"{name}.{own}"


def test_every_public_call_is_left_in_the_middle_or_has_none() -> None:
    there = set(calls())
    listed = {*LEFT_BY, *NO_MIDDLE}
    missing = {
        call for call in there - listed if not call.endswith(tuple(f".{c}" for c in CONTEXTS))
    }
    assert sorted(missing) == [], "leave it in the middle in a test, and name that test here"
    assert sorted(listed - there) == [], "there is no such call any more"
    assert not LEFT_BY.keys() & NO_MIDDLE.keys()


@pytest.mark.parametrize("name", sorted(set(LEFT_BY.values())))
def test_the_test_that_is_named_is_there(name: str) -> None:
    file, _, test = name.partition("::")
    tree = ast.parse((TESTS / file).read_text("utf-8"))
    assert any(isinstance(n, ast.FunctionDef) and n.name == test for n in ast.walk(tree))


def test_a_call_that_nobody_has_listed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait_longer(self: Any, timeout_s: float) -> None: ...

    wait_longer.__module__ = "gapless.of_a_test"
    monkeypatch.setattr(gapless.Tdb, "wait_longer", wait_longer, raising=False)
    with pytest.raises(AssertionError, match=r"Tdb\.wait_longer"):
        test_every_public_call_is_left_in_the_middle_or_has_none()
