"""Where jobs run: every cluster of this user on this machine is looked at, and what is found is
said; a job that runs is not started a second time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import psutil
import pytest
from ray.core.generated import gcs_service_pb2

import gapless as gl
from gapless.actors import cluster, whereabouts
from gapless.actors.code import Functions
from gapless.actors.door import Door
from gapless.actors.handle import Job, attach
from gapless.actors.launch import resume
from gapless.actors.setup import JobDir
from gapless.actors.whereabouts import Found, Silent, actor_at, at_hand, cluster_of, roots
from gapless.engine.plan import Plan
from gapless.failover.job import directory as jobs
from gapless.failover.job.desired import Desired
from gapless.failover.job.files import JobRecord, Where
from gapless.journal.disk import LocalDisk
from gapless.protocol.errors import Misuse

gcs: Any = gcs_service_pb2
HERE, THERE, ELSEWHERE = "10.0.0.1:6379", "10.0.0.1:41243", "10.0.0.9:6379"
NOBODY = "nobody"
DUMB = "dumb"


@dataclass
class Gcs:
    """The control services of clusters: by address their jobs, each with its root's number."""

    jobs: dict[str, Mapping[str, str] | str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    @contextmanager
    def service(self, address: str) -> Iterator[Any]:
        self.asked.append(address)
        there = self.jobs.get(address, NOBODY)
        if there == NOBODY:
            raise Silent(f"nobody listens at {address}", is_there=False)
        if isinstance(there, str):
            raise Silent(f"{address} does not answer: {there}", is_there=True)
        yield SimpleNamespace(
            ListNamedActors=lambda request, timeout: self.listed(there, request),
            GetNamedActorInfo=lambda request, timeout: self.named(there, request),
        )

    def listed(self, there: Mapping[str, str], request: Any) -> Any:
        reply = gcs.ListNamedActorsReply()
        for name in [f"{job}/root" for job in there] + ["talkers/host-1", "other/root"]:
            space = "somebody's" if name == "other/root" else request.ray_namespace
            reply.named_actors_list.add(ray_namespace=space, name=name)
        return reply

    def named(self, there: Mapping[str, str], request: Any) -> Any:
        reply = gcs.GetNamedActorInfoReply()
        number = there.get(request.name.removesuffix("/root"))
        if number is None:
            reply.status.code = 17
        else:
            reply.actor_table_data.actor_id = bytes.fromhex(number)
        return reply


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> Gcs:
    found = Gcs()
    monkeypatch.setattr(whereabouts, "_service", found.service)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return found


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, list[str]]]:
    """Its processes: name, user, arguments."""
    processes: list[tuple[str, int, list[str]]] = []

    def listed(_: object) -> Iterator[Any]:
        for name, user, command in processes:
            uids = SimpleNamespace(real=user)
            yield SimpleNamespace(info={"name": name, "uids": uids, "cmdline": command})

    monkeypatch.setattr(psutil, "process_iter", listed)
    monkeypatch.setattr(whereabouts, "read_ray_address", lambda: None)
    return processes


def node(address: str, user: int | None = None) -> tuple[str, int, list[str]]:
    user = os.getuid() if user is None else user
    return "raylet", user, ["/ray/raylet", f"--gcs-address={address}", "--node_ip=10.0.0.1"]


def test_clusters_at_hand_are_those_with_a_node_of_this_user_and_the_one_started_last(
    machine: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert at_hand() == []
    machine += [node(HERE), node(THERE), node(HERE), node("10.0.0.1:9", os.getuid() + 1)]
    machine.append(("python", os.getuid(), ["python", "--gcs-address=10.0.0.1:1"]))
    assert at_hand() == [HERE, THERE]
    monkeypatch.setattr(whereabouts, "read_ray_address", lambda: ELSEWHERE)
    assert at_hand() == [HERE, THERE, ELSEWHERE]


def test_the_clusters_that_are_looked_at_are_bounded(
    machine: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whereabouts, "CLUSTERS_MAX", 2)
    machine += [node(f"10.0.0.1:{port}") for port in range(1, 9)]
    assert at_hand() == ["10.0.0.1:1", "10.0.0.1:2"]


def test_a_cluster_says_which_jobs_run_and_where_the_root_of_one_is(services: Gcs) -> None:
    services.jobs[HERE] = {"talkers": "ab01", "alerts": "ab02"}
    assert roots(HERE) == ["alerts", "talkers"]
    assert actor_at(HERE, "alerts/root") == Found("ab02", 0)
    assert actor_at(HERE, "other/root") is None
    with pytest.raises(Silent) as silent:
        actor_at(THERE, "alerts/root")
    assert not silent.value.is_there


def test_an_address_without_a_listener_is_none_and_says_so() -> None:
    with pytest.raises(Silent, match=r"nobody listens at 127\.0\.0\.1:1") as silent:
        roots("127.0.0.1:1")
    assert not silent.value.is_there


def test_a_service_that_refuses_is_there_and_does_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refused(grpc.RpcError):  # type: ignore[misc]  # grpc has no types
        def __str__(self) -> str:
            return "another token"

    def refuses(*_: object, **__: object) -> Any:
        raise Refused

    monkeypatch.setattr(whereabouts, "show_token", lambda *_: None)
    monkeypatch.setattr(
        whereabouts, "init_grpc_channel", lambda _: SimpleNamespace(close=lambda: None)
    )
    stub = SimpleNamespace(ListNamedActors=refuses)
    monkeypatch.setattr(whereabouts, "_Service", lambda _: stub)
    with pytest.raises(Silent, match="another token") as silent:
        roots(HERE)
    assert silent.value.is_there


def test_a_job_is_found_in_whichever_cluster_it_runs(services: Gcs, machine: list[Any]) -> None:
    machine += [node(HERE), node(THERE), node(ELSEWHERE)]
    services.jobs |= {HERE: {"alerts": "01"}, THERE: {"talkers": "02"}}
    assert cluster_of("talkers") == THERE
    assert cluster_of("alerts") == HERE
    with pytest.raises(Misuse) as refused:
        cluster_of("talkies")
    said = str(refused.value)
    assert f"the cluster at {HERE}, which runs alerts" in said
    assert f"the cluster at {THERE}, which runs talkers" in said
    assert ELSEWHERE not in said, "a cluster that is gone is none"
    services.jobs[ELSEWHERE] = "another token"
    with pytest.raises(Misuse, match=f"{ELSEWHERE}, which does not say what runs there: .*another"):
        cluster_of("talkies")


def test_a_name_in_two_clusters_is_to_be_told_apart(services: Gcs, machine: list[Any]) -> None:
    machine += [node(HERE), node(THERE)]
    services.jobs |= {HERE: {"talkers": "01"}, THERE: {"talkers": "02"}}
    with pytest.raises(Misuse, match=f"run in 2 clusters .*--address.*{HERE}, {THERE}"):
        cluster_of("talkers")


@pytest.mark.usefixtures("machine")
def test_without_any_cluster_a_job_that_is_asked_for_runs_nowhere(services: Gcs) -> None:
    with pytest.raises(Misuse, match="nor does a Ray cluster"):
        cluster_of("talkers")
    assert services.asked == []


def test_attaching_looks_everywhere_only_where_it_is_open_which_cluster_is_meant(
    services: Gcs, machine: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Connected(Exception):
        pass

    def connect(address: str | None) -> bool:
        raise Connected(address)

    monkeypatch.setattr(cluster, "connect", connect)
    machine += [node(HERE), node(THERE)]
    services.jobs |= {HERE: {}, THERE: {"talkers": "02"}}
    with pytest.raises(Connected, match=THERE):
        attach("talkers")
    with pytest.raises(Connected, match=HERE):
        attach("talkers", address=HERE)
    monkeypatch.setenv("RAY_ADDRESS", HERE)
    with pytest.raises(Connected, match="auto"):
        attach("talkers")


# -- resuming -------------------------------------------------------------------------------------


def job_at(path: Path, where: Where | None) -> Path:
    """A job's directory, whose root has begun to run there."""
    rows = gl.source("flows", {"ts": "int64", "k": "int64"}, time="ts")
    plan = Plan(rows.window(range=10, slide=5).group_by("k").aggregate(n=gl.count()))
    record = JobRecord("talkers", {"flows": "/flows"}, insert_only=True, case="r3")
    path.mkdir()
    job = jobs.Job.create(LocalDisk(path), "t", record, {"a": plan}, Desired(2, ("a",)))
    job.next_term(where)
    return path


class Started(Exception):
    """Resuming has gone on to start it."""


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(_: object) -> bool:
        raise Started

    monkeypatch.setattr(cluster, "connect", connect)


WHERE = Where(THERE, "ab02", "host-a", 4711)


@pytest.mark.usefixtures("starts")
@pytest.mark.parametrize("leads", ["root", "standby"])
def test_a_job_that_runs_is_not_resumed_but_taken_over(
    leads: str, services: Gcs, tmp_path: Path
) -> None:
    path = job_at(tmp_path / "job", WHERE)
    services.jobs[THERE] = (
        {"talkers": "ab02"}
        if leads == "root"
        else {
            "talkers": "ab03",
            "talkers/standby": "ab02",
        }
    )
    with pytest.raises(Misuse, match=f"runs in the Ray cluster at {THERE}.*4711 on host-a") as said:
        resume(path)
    assert f"gapless status talkers --address {THERE}" in str(said.value)
    assert "--takeover" in str(said.value)
    with pytest.raises(Started):
        resume(path, takeover=True)


@pytest.mark.usefixtures("starts")
@pytest.mark.parametrize(
    "there",
    [NOBODY, {}, {"alerts": "ab02"}, {"talkers": "ab03"}],
    ids=["no cluster", "no job", "another job", "another job of that name"],
)
def test_a_job_whose_root_is_gone_is_resumed(
    there: Mapping[str, str] | str, services: Gcs, tmp_path: Path
) -> None:
    path = job_at(tmp_path / "job", WHERE)
    services.jobs[THERE] = there
    with pytest.raises(Started):
        resume(path)
    assert {*services.asked} == {THERE}


@pytest.mark.usefixtures("starts")
def test_a_cluster_that_does_not_say_may_run_the_job(services: Gcs, tmp_path: Path) -> None:
    path = job_at(tmp_path / "job", WHERE)
    services.jobs[THERE] = DUMB
    with pytest.raises(Misuse, match=r"may still run in .*does not say: .*dumb; --takeover"):
        resume(path)
    with pytest.raises(Started):
        resume(path, takeover=True)


@pytest.mark.usefixtures("starts")
def test_a_job_that_never_said_where_it_runs_is_resumed(services: Gcs, tmp_path: Path) -> None:
    path = job_at(tmp_path / "job", None)
    with pytest.raises(Started):
        resume(path)
    assert services.asked == []


# -- looking runs nothing of the job --------------------------------------------------------------


def test_who_attaches_and_looks_runs_no_code_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = job_at(tmp_path / "job", WHERE)
    (path / "code").mkdir()
    (path / "code" / "json.py").write_text("raise SystemExit('run by a reader')")
    monkeypatch.setattr(sys, "path", list(sys.path))  # planning puts the job's code there
    schema = JobDir(path).schema()
    before = list(sys.path)
    monkeypatch.setattr(cluster, "connection", lambda: "one")
    monkeypatch.setattr(Functions, "__init__", lambda *_: pytest.fail("code/ is on Python's path"))
    view: Any = SimpleNamespace(name="talkers", job_dir=str(path), schema=schema)
    monkeypatch.setattr(Door, "ask", lambda *_: view)
    job = Job(Door("talkers", None))
    assert job.schema == schema
    assert job.status() == view
    assert sys.path == before
