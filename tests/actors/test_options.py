"""Whatever is wrong in what `launch` is given is one sentence, before any cluster is started."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.actors import cluster
from gapless.actors.code import check_reachable

COLUMNS = {"ts": "timestamp[ms]", "k": "int64"}


def rate(column: pa.Array) -> pa.Array:
    """A function that any process can import."""
    return column


class Scorer:
    """Calls are of its type, by name; the object is nobody else's."""

    def __call__(self, column: pa.Array) -> pa.Array:
        return column


def scored(call: Callable[..., Any]) -> gl.Query:
    rows = gl.source("flows", COLUMNS, time="ts")
    return rows.select("ts", k=gl.function(call, "k", returns="int64"))


class Started(Exception):
    """It has gone on to start a cluster."""


@pytest.fixture
def launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """`gl.launch` of something that is right, except for what is given."""
    with gl.JournalWriter(tmp_path / "flows", COLUMNS, time="ts"):
        pass
    connect = cluster.connect

    def connecting(address: Any, **_: Any) -> bool:
        if address is not None:
            return connect(address)
        raise Started

    monkeypatch.setattr(cluster, "connect", connecting)
    rows = gl.source("flows", COLUMNS, time="ts")
    query = rows.window(range="10s", slide="5s").group_by("k").aggregate(n=gl.count())

    def launch(first: Any = query, **given: Any) -> Any:
        return gl.launch(first, **{"journal": tmp_path / "flows", "dir": tmp_path / "job", **given})

    return launch


def test_what_is_right_is_started_and_a_start_that_fails_leaves_no_directory(
    launch: Callable[..., Any], tmp_path: Path
) -> None:
    rights: list[dict[str, Any]] = [{}, {"runtime_env": {}}, {"code": __file__}]
    for given in (*rights, {"first": scored(rate), "plans": iter([scored(rate)])}):
        with pytest.raises(Started):
            launch(**given)
        assert not (tmp_path / "job").exists()
    (tmp_path / "job").mkdir()
    with pytest.raises(Started):
        launch()
    assert (tmp_path / "job").exists(), "what was there stays"


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("checkpoint_s", wrong) for wrong in ("x", None, 0, -1, True, float("inf"), 1e300)),
        *(("retain", wrong) for wrong in ("x", -5, 0, 1.5)),
        *(("retain_bytes", wrong) for wrong in (-5, 0, "5GB", 1.5, True)),
        *(("memory_limit", wrong) for wrong in (-5, 0, 1e9)),
        *(("replicas", wrong) for wrong in (0, -1, "3", 1.5, 10**9)),
        *(("mergers", wrong) for wrong in (0, 5, [0])),
        *(("shards", wrong) for wrong in (0, 1.5, 10**9)),
        *(("spares", wrong) for wrong in (-1, 99, None)),
        *(("name", wrong) for wrong in ("", 5, "a/b", "x" * 200)),
        *(("plans", wrong) for wrong in (5, [], {}, [5], {"a": 5}, "query", lambda: 1)),
        *(("journal", wrong) for wrong in (5, "", None, "/dev/null", "/proc", {"other": "x"})),
        *(("dir", wrong) for wrong in (5, "", None, "/dev/null", "/proc/none", "a\0b", b"x")),
        *(("code", wrong) for wrong in (5, "/there/is/none", "")),
        *(("address", wrong) for wrong in (5, "", "127.0.0.1:1", "ray://a:1", "nonsense")),
        ("on_divergence", "panic"),
        ("runtime_env", 5),
        *(("timing", wrong) for wrong in (5, {"hang": 1}, {"hang_ms": "3s"}, {"checkpoint_ms": 5})),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence_before_anything_starts(
    option: str, value: Any, launch: Callable[..., Any], tmp_path: Path
) -> None:
    with pytest.raises(gl.GaplessError) as refused:
        launch(**{option: value})
    said = str(refused.value)
    assert "\n" not in said
    assert len(said) < 500
    assert not (tmp_path / "job").exists()


def test_a_query_that_is_none_is_said(launch: Callable[..., Any]) -> None:
    for wrong in (5, None, "query", lambda: 1):
        with pytest.raises(gl.Misuse):
            launch(wrong)


def made_inside() -> Callable[[pa.Array], pa.Array]:
    def inner(column: pa.Array) -> pa.Array:
        return column

    return inner


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda column: column, "a lambda has no name by which .* write it with def at the top of"),
        (made_inside(), "made inside another function.*write it with def"),
        (partial(rate), "something else than the query calls|cannot be reached"),
        (Scorer(), "something else than the query calls"),
    ],
)
def test_a_function_that_no_other_process_can_import_is_refused_before_anything_starts(
    call: Callable[..., Any], why: str, launch: Callable[..., Any], tmp_path: Path
) -> None:
    with pytest.raises(gl.Misuse, match=why):
        launch(scored(call))
    assert not (tmp_path / "job").exists()
    with pytest.raises(Started):
        launch(scored(rate))


def test_a_function_of_the_program_itself_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate, "__module__", "__main__")
    with pytest.raises(gl.Misuse, match="in the program that runs"):
        check_reachable("__main__:rate", rate)


def test_an_aggregate_function_is_looked_at_as_well(launch: Callable[..., Any]) -> None:
    rows = gl.source("flows", COLUMNS, time="ts")
    spread = gl.aggregate("k", lambda values: len(values) + 1, returns="int64")
    query = rows.window(range="10s", slide="5s").aggregate(n=spread)
    with pytest.raises(gl.Misuse, match="a lambda has no name"):
        launch(query)
