"""The root of a job: the supervisor's shell. It starts and ends processes on the machine's orders.

    Desire, DropCheckpoint    failover/io/supervisor_io.py: the job's directory
    Spawn, Kill               the same, by life_processes.py, on threads: the cluster takes its time
    Send                      the post, to lives in the address book, which the root writes
    Died, Nodes               from watching the hosts, and from asking the cluster (node_watch.py)

It runs in one of two detached actors (root_actor.py), "talkers/root" and "talkers/standby", that
Ray restarts when they die; where one dies the other leads (pair.py). Every root takes a term of the
job's directory; it finds the hosts that run, writes a new book, and adopts their lives. While
there is no root, the output goes on. A root whose term is over does nothing more: another has the
job (decision 0023).
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import ray
from ray.exceptions import RayActorError

from gapless.actors.book import Book, Entry
from gapless.actors.flight_record import flight_record
from gapless.actors.host import LAST_WORDS_S, About
from gapless.actors.hosts import Hosts, reason
from gapless.actors.life_processes import LifeProcesses
from gapless.actors.node_watch import NodeWatch
from gapless.actors.pair import Other
from gapless.actors.post import Post
from gapless.actors.pump import Pump, each_heard, now_ms
from gapless.actors.reader_registry import ReaderKeeper
from gapless.actors.reserve import Reserve
from gapless.actors.setup import JobDir, Setup, token
from gapless.actors.shard_check import check_shards
from gapless.actors.shell import Alarmed
from gapless.actors.views import Alarm, JobView
from gapless.actors.wire import MessageDecoder, Wire
from gapless.engine.splice import runnable_from_document
from gapless.failover import effects as shared
from gapless.failover.io.supervisor_io import EFFECTS, JobEffect, SupervisorIO, drop_unreadable
from gapless.failover.job.desired import Change, Switch
from gapless.failover.job.files import Where
from gapless.failover.life_start import Start
from gapless.failover.messages import SUPERVISOR, Life, Message
from gapless.failover.supervisor import effects as ask
from gapless.failover.supervisor.equivalence import successors
from gapless.failover.supervisor.machine import Supervisor
from gapless.failover.timing import Timing
from gapless.protocol.documents import Document
from gapless.protocol.elements import BEGIN
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import GaplessError, JobError

TERM_MS = 1000
"""Between two looks whether another root has the job."""
BEGINNING = ("starting", "joining")
"""States of a slot whose life is on its way to be of use."""
ALARMS_MAX = 200
"""Kept for people; the log has all of them."""

_log = logging.getLogger("gapless.actors")


class Root:
    """One life of a job's root; it runs in an actor (root_actor.py). Raises what keeps it from
    starting; another can then be made.
    """

    def __init__(
        self,
        job_dir: str,
        timing: Timing,
        runtime_env: Mapping[str, Any] | None,
        where: Where,
        other: Other,
    ) -> None:
        """`where` it runs; `other` is the actor that leads when this one has died."""
        self._where, self._other = where, other
        self._dir = JobDir(job_dir)
        job, record = self._dir.job, self._dir.job.record
        resumed = job.resume(self._dir.functions, where)
        self._timing = replace(timing, checkpoint_ms=record.settings.checkpoint_ms)
        self.life = Life(SUPERVISOR, Incarnation(resumed.term, 0))
        self._schema = self._dir.schema()
        self._began_ms = now_ms()
        self._alarms: deque[Alarm] = deque(maxlen=ALARMS_MAX)
        self._ended = threading.Event()
        self._reason = ""
        self._nodes = NodeWatch()
        self._hosts = Hosts(record.name, job_dir, record.settings.spares, runtime_env)
        self._handle = ray.get_runtime_context().current_actor
        self._node = ray.get_runtime_context().get_node_id()
        drop_unreadable(job, resumed, lambda what: self._note("root", what))
        self.machine = Supervisor(
            resumed.term,
            resumed.desired,
            resumed.checkpoints,
            tuple(self._nodes.names),
            self._timing,
            on_divergence=record.settings.on_divergence,
        )
        wire = Wire(self._schema)
        self._record = flight_record(self.life, self.machine, self._dir.disk, token(), wire)
        self._pump = self._made_pump()
        standby = other if record.settings.spares else None
        self._reserve = Reserve(
            self._hosts,
            standby,
            self._pump,
            self._node,
            lambda: self._nodes.names,
            self._any_begins,
            self._is_over,
        )
        self._intake = MessageDecoder(wire, lambda what: self._note("root", what))
        self._post = Post(Wire(self._schema), self._pump.do)
        self._processes = self._made_processes()
        self._io = SupervisorIO(
            job,
            resumed,
            self._processes,
            lambda what: self._note("root", what),
            on_drop=self._has_dropped,
        )
        self._begin()

    def _made_pump(self) -> Pump:
        does: dict[type, Callable[[Any], None]] = {
            shared.Send: lambda effect: self._post.send(effect.to, effect.message),
            shared.Exit: lambda effect: self._pump.stop(effect.reason),
            shared.Alarm: lambda effect: self._alarm(effect.what),
        }
        does |= dict.fromkeys(EFFECTS, self._has_done)
        return Pump(
            str(self.life),
            self.machine,
            does,
            flush=self._flush,
            at_end=self._end,
            record=self._record,
        )

    def _made_processes(self) -> LifeProcesses:
        def setup_of(life: Life, node: str, start: Start) -> Setup:
            return Setup(str(self._dir.path), life, start, self._schema, self._timing, node)

        return LifeProcesses(
            (self.life, Entry(self._handle, self._node)),
            self._hosts,
            self._pump,
            self._post,
            setup_of,
            self._nodes.name_of,
            self._reserve.want,
        )

    def _begin(self) -> None:
        """Adopts the lives that run, and leads from then on."""
        answered = self._processes.find()
        self.machine.expect(life for life in answered if life.incarnation < self.life.incarnation)
        self._processes.publish()
        self._keeper = ReaderKeeper(self._dir, token(), self.tell, lambda e: self.tell(str(e)))
        self._pump.do(lambda: self._pump.later(TERM_MS, self._look_at_term))
        self._keeper.sweep_on(self._pump, lambda: self.machine.state().slots)
        self._pump.do(self._reserve.want)
        self._pump.start()
        self._nodes.start(self._have_nodes)

    # -- for lives ----------------------------------------------------------------------------

    def hear(self, data: bytes) -> None:
        """Takes messages."""
        self._pump.do(lambda: self._hear(data))

    def _hear(self, data: bytes) -> None:
        for message in each_heard(self._pump, data, self._intake.take(data)):
            self._take(message)

    def _take(self, message: Message | Alarmed) -> None:
        if isinstance(message, Alarmed):
            self._note(str(message.life), message.what)
        else:
            self._pump.happens(message)

    # -- for people ---------------------------------------------------------------------------

    def view(self) -> JobView:
        """How the job is."""
        return self._pump.call(self._view)

    def _view(self) -> JobView:
        record = self._dir.job.record
        return JobView(
            record.name,
            str(self._dir.path),
            self.machine.state(),
            self.machine.desired,
            dict(self._nodes.names),
            dict(self._processes.about),
            tuple(self._alarms),
            About(self.life, self._node, os.getpid()),
            now_ms() - self._began_ms,
            ray.get_runtime_context().gcs_address,
            self._schema,
            self._other.about,
        )

    def book(self) -> Book:
        """Where the lives are."""
        return self._post.book

    def command(self, change: Change) -> None:
        """Changes what is desired. Raises `Misuse` where that makes no sense, and `JobError` where
        it could not be written.
        """
        self._pump.call(lambda: self._change(change))

    def _change(self, change: Change) -> None:
        self._pump.happens(ask.Command(change))
        if self._io.unwritten:
            raise JobError(self._io.unwritten)

    def cutover(
        self, plans: Mapping[str, Document], at: int | None, assumed: bool = False
    ) -> tuple[str, ...]:
        """Switches to these plans, by name: of the same answer or, with `at`, of another from then
        on. `assumed`: somebody's word that plans which are written differently give the same.
        Returns what was taken on it. Raises `NotEquivalent` and `Misuse`, and nothing has changed.
        """
        return self._pump.call(lambda: self._cutover(plans, at, assumed))

    def _cutover(
        self, plans: Mapping[str, Document], at: int | None, assumed: bool
    ) -> tuple[str, ...]:
        job = self._dir.job
        old = job.plan(self.machine.desired.plans[0], self._dir.functions)
        given = {
            name: runnable_from_document(document, self._dir.functions)
            for name, document in plans.items()
        }
        wanted, notes = successors(old, given, at, assumed=assumed)
        if (shards := self.machine.desired.shards) > 1:
            for plan in wanted.values():
                check_shards(plan, self._dir.layouts(), shards)
        for name, plan in wanted.items():
            job.add_plan(name, plan)
        self._change(Switch(tuple(wanted), BEGIN if at is None else at))
        return notes

    def record(self, reason: str) -> bytes:
        """The flight record of its supervisor."""
        return self._record.encoded(self._pump.call(self._record.take), reason)

    def wait(self) -> str:
        """Answers when this root ends by itself, and says why."""
        self._ended.wait()
        return self._reason

    def validate(self) -> None:
        """Raises `Bug` where an invariant is broken, here or in any life."""
        self._pump.call(self.machine.validate)
        handles = self._pump.call(self._processes.handles)
        for answer in [handle.validate.remote() for handle in handles]:
            try:
                ray.get(answer)
            except RayActorError as e:  # who dies meanwhile has no invariants any more
                _log.info("a life died while it was looked at: %s", reason(e))

    def about(self) -> About:
        """The identity of this process."""
        return About(self.life, self._node, os.getpid())

    # -- the machine's effects ----------------------------------------------------------------

    def _has_done(self, effect: JobEffect) -> None:
        if (follows := self._io.do(effect)) is not None:
            self._pump.happens(follows)

    def _has_dropped(self, checkpoint: str) -> None:
        self._keeper.drop_checkpoint(checkpoint)

    @property
    def is_followed(self) -> bool:
        """Whether another root has the job: what is asked of this one is for that one to answer. As
        far as is known: where the directory cannot be read, this one's own answer stands.
        """
        try:
            return self._dir.job.is_over
        except (GaplessError, OSError) as e:
            _log.warning("whether another root has the job cannot be read: %s", e)
            return False

    def _is_over(self) -> bool:
        """Whether this root has ended; it does where another one has the job."""
        if self._pump.ended is None and (order := self._io.look()) is not None:
            self._pump.happens(order)
        return self._pump.ended is not None

    def _look_at_term(self) -> None:
        if not self._is_over():
            self._pump.later(TERM_MS, self._look_at_term)

    def _flush(self) -> None:
        self._post.flush()

    def _any_begins(self) -> bool:
        """Whether a life is on its way to be of use."""
        return any(slot.state in BEGINNING for slot in self.machine.state().slots)

    def _have_nodes(self) -> None:
        """Other nodes are there than before; on the thread that has seen it."""
        names = self._nodes.names
        self._pump.post(ask.Nodes(tuple(names)))
        self._pump.do(lambda: self._processes.keep_nodes(names))
        self._pump.do(lambda: self._reserve.keep_nodes(names))

    # -- the end ------------------------------------------------------------------------------

    def _note(self, who: str, what: str) -> None:
        _log.warning("%s: %s", who, what)
        self._alarms.append(Alarm(time.time_ns() // 1_000_000, who, what))

    def _alarm(self, what: str) -> None:
        self._record.alarm(what, now_ms())
        self._note("supervisor", what)

    def tell(self, what: str) -> None:
        """An alarm, from any thread."""
        self._pump.do(lambda: self._note("root", what))

    def _end(self, why: str) -> None:
        """The machine has exited. A stopped job needs no root, nor does one that another pair has;
        what broke down, or was followed by the other of its pair, is restarted by Ray, to stand by.
        """
        self._reason = why
        self._ended.set()
        self._nodes.end()
        self._processes.end()
        self._reserve.end()
        try:
            is_stopped = self._dir.job.desired().state == "stopped"
            is_done = is_stopped or self._is_anothers()
        except (GaplessError, OSError) as e:
            _log.error("whether the job is over cannot be read: %s", e)
            is_stopped, is_done = False, False
        if is_stopped:
            self._keeper.end()
            self._hosts.end()
        if is_done:
            self._other.end()
        time.sleep(LAST_WORDS_S)
        ray.kill(self._handle, no_restart=is_done)

    def _is_anothers(self) -> bool:
        """Whether a later pair of actors has the job."""
        where = self._dir.job.where()
        return self._dir.job.is_over and (where is None or where.pair != self._where.pair)
