"""The root of a job: the supervisor's shell. It starts and ends processes as the machine says.

    Spawn, Kill      hosts.py, on threads: the cluster takes its time
    Desire           the job's directory, before anything else happens
    Send             the post, to lives in the address book, which the root writes
    Died, Nodes      from watching the hosts, and from asking the cluster

It lives in one of two detached actors (root_actor.py), "talkers/root" and "talkers/standby", that
Ray restarts when they die; where one dies the other leads (pair.py). Every root takes a term of the
job's directory; it finds the hosts that run, writes a new book, and adopts who is in it. While
there is none nothing of the output stops. One whose term is over does nothing more: another root
has the job (decision 0023).
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import ray
from ray.exceptions import RayActorError, RayError

from gapless.actors.book import Book, Entry
from gapless.actors.flight_record import FlightRecord
from gapless.actors.host import LAST_WORDS_S, About
from gapless.actors.hosts import Hosts, reason
from gapless.actors.node_threads import NodeThreads
from gapless.actors.pair import Other
from gapless.actors.post import Post
from gapless.actors.pump import Pump, now_ms
from gapless.actors.registering import Keeper
from gapless.actors.reserve import Reserve
from gapless.actors.setup import JobDir, Setup, token
from gapless.actors.sharding import check_shards
from gapless.actors.shell import Alarmed
from gapless.actors.views import Alarm, JobView
from gapless.actors.wire import Intake, Wire
from gapless.engine.splice import runnable_from_document
from gapless.failover import effects as ask
from gapless.failover.job.desired import Change, Switch
from gapless.failover.job.files import Where
from gapless.failover.messages import SUPERVISOR, Life, Message, Retire
from gapless.failover.supervisor.equivalence import successors
from gapless.failover.supervisor.machine import Supervisor
from gapless.failover.timing import Timing
from gapless.protocol.documents import Document
from gapless.protocol.elements import BEGIN
from gapless.protocol.envelope import Incarnation
from gapless.protocol.errors import DiskFull, Fenced, GaplessError

NODES_MS = 300
"""Between two looks at which nodes there are."""
TERM_MS = 1000
"""Between two looks whether another root has the job."""
BEGINNING = ("starting", "joining")
"""States of a slot whose life is on its way to be of use."""
SPAWNERS = 4
"""Processes that are started at once on each node; each start keeps a core busy for a while."""
ALARMS_MAX = 200
"""Kept for people; the log has all of them."""

_log = logging.getLogger("gapless.actors")


class Root:
    """One life of a job's root; it lives in an actor (root_actor.py). Raises what keeps it from
    beginning, and can be made again.
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
        self._nodes = _nodes()
        self._hosts = Hosts(record.name, job_dir, record.settings.spares, runtime_env)
        self._handle = ray.get_runtime_context().current_actor
        self._node = ray.get_runtime_context().get_node_id()
        self._about: dict[Life, About] = {}
        self._entries: dict[Life, Entry] = {self.life: Entry(self._handle, self._node)}
        self._books = 0
        self._spawning = NodeThreads("spawn", SPAWNERS)
        self._killing = ThreadPoolExecutor(1, thread_name_prefix="kill")
        for name, why in resumed.unreadable.items():
            self._note("root", f"checkpoint {name} is dropped: {why}")
            job.drop_checkpoint(name)
        self.machine = Supervisor(
            resumed.term,
            resumed.desired,
            resumed.checkpoints,
            tuple(self._nodes),
            self._timing,
            on_divergence=record.settings.on_divergence,
        )
        self._record = FlightRecord(self.life, self.machine, self._dir.disk, token())
        self._pump = Pump(
            str(self.life),
            self.machine,
            {
                ask.Send: lambda effect: self._post.send(effect.to, effect.message),
                ask.Exit: lambda effect: self._pump.stop(effect.reason),
                ask.Alarm: lambda effect: self._alarm(effect.what),
                ask.Spawn: self._spawn,
                ask.Kill: self._kill,
                ask.Desire: self._desire,
                ask.DropCheckpoint: lambda effect: self._drop_checkpoint(effect.name),
            },
            flush=self._flush,
            at_end=self._end,
            record=self._record,
        )
        self._reserve = Reserve(
            self._hosts,
            other if record.settings.spares else None,
            self._pump,
            self._node,
            lambda: self._nodes,
            self._any_begins,
            self._retires,
        )
        self._intake = Intake(Wire(self._schema), lambda what: self._note("root", what))
        self._post = Post(Wire(self._schema), self._pump.do)
        for about, handle in self._hosts.find():
            self._add(about, handle)
        answered = [life for life, about in self._about.items() if about.pid]
        self.machine.expect(life for life in answered if life.incarnation < self.life.incarnation)
        self._publish()
        self._keeper = Keeper(self._dir, token(), self.tell, lambda e: self.tell(str(e)))
        self._pump.do(lambda: self._pump.later(TERM_MS, self._look_at_term))
        self._keeper.sweep_on(self._pump, lambda: self.machine.state().slots)
        self._pump.do(self._reserve.want)
        self._pump.start()
        threading.Thread(target=self._watch_nodes, name="nodes", daemon=True).start()

    # -- for lives ----------------------------------------------------------------------------

    def hear(self, data: bytes) -> None:
        """Takes messages."""
        self._pump.do(lambda: self._hear(data))

    def _hear(self, data: bytes) -> None:
        for message in self._intake.take(data):
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
            dict(self._nodes),
            dict(self._about),
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
        """Changes what is desired. Raises `Misuse` where that makes no sense."""
        self._pump.call(lambda: self._pump.happens(ask.Command(change)))

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
        self._pump.happens(ask.Command(Switch(tuple(wanted), BEGIN if at is None else at)))
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
        handles = self._pump.call(lambda: [self._entries[life].handle for life in self._about])
        for answer in [handle.validate.remote() for handle in handles]:
            try:
                ray.get(answer)
            except RayActorError as e:  # who dies meanwhile has no invariants any more
                _log.info("a life died while it was looked at: %s", reason(e))

    def about(self) -> About:
        """The identity of this process."""
        return About(self.life, self._node, os.getpid())

    # -- lives --------------------------------------------------------------------------------

    def _spawn(self, effect: ask.Spawn) -> None:
        if self._retires():
            return
        life, start, node = effect.life, effect.start, effect.node
        setup = Setup(str(self._dir.path), life, start, self._schema, self._timing, node)
        self._spawning.submit(node, self._start, setup, self._post.book)

    def _start(self, setup: Setup, book: Book) -> None:
        """On a thread of its own."""

        def begins(handle: Any) -> None:
            self._pump.do(lambda: self._begins(setup, handle))

        try:
            handle, about = self._hosts.start(setup, book, begins)
        except (RayError, ValueError) as e:
            why = f"it cannot be started on node {self._name_of(setup.node)}: {reason(e)}"
            self._pump.do(lambda: self._died(setup.life, why))
            return
        self._pump.do(lambda: self._started(about, handle))

    def _begins(self, setup: Setup, handle: Any) -> None:
        self._entries[setup.life] = Entry(handle, setup.node)
        self._publish()

    def _started(self, about: About, handle: Any) -> None:
        self._add(about, handle)
        self._reserve.want()

    def _add(self, about: About, handle: Any) -> None:
        life = about.life
        if life is None:
            return
        self._about[life] = about
        self._entries[life] = Entry(handle, about.node)

        def over(why: str) -> None:
            self._pump.do(lambda: self._died(life, why))

        self._hosts.watch(handle, over)

    def _died(self, life: Life, why: str) -> None:
        about = self._about.pop(life, None)
        node = "" if about is None else f" on node {self._name_of(about.node)}"
        _log.info("%s%s is over: %s", life, node, why)
        entry = self._entries.pop(life, None)
        if entry is not None:
            self._publish()
            self._killing.submit(self._hosts.kill, entry.handle)  # it has ended, or is out of reach
        self._pump.happens(ask.Died(life, why))

    def _kill(self, effect: ask.Kill) -> None:
        if self._retires():
            return
        entry, about = self._entries.get(effect.life), self._about.get(effect.life)
        if entry is None:
            return
        if about is not None:
            self._killing.submit(self._hosts.slay, about)
        self._killing.submit(self._hosts.kill, entry.handle)

    def _publish(self) -> None:
        """Writes a new version of the address book, and sends it to all who are in it."""
        self._books += 1
        book = Book((self.life.incarnation.term, self._books), dict(self._entries))
        self._post.take_book(book)
        for life, entry in self._entries.items():
            if life != self.life:
                entry.handle.meet.remote(book)

    def _any_begins(self) -> bool:
        """Whether a life is on its way to be of use."""
        return any(slot.state in BEGINNING for slot in self.machine.state().slots)

    # -- the job's directory ------------------------------------------------------------------

    def _desire(self, effect: ask.Desire) -> None:
        try:
            self._dir.job.write_desired(effect.desired)
        except (Fenced, DiskFull, OSError) as e:
            self._note("root", f"what is desired cannot be written: {e}")
            self._pump.stop(f"cannot write what is desired: {e}")

    def _drop_checkpoint(self, name: str) -> None:
        if not self._retires():
            self._dir.job.drop_checkpoint(name)
            self._keeper.drop_checkpoint(name)

    def _retires(self) -> bool:
        """Whether another root has the job; this one ends then."""
        if self._dir.job.is_over and self._pump.ended is None:
            term = self.life.incarnation.term
            self._pump.happens(Retire(term, self.life, "another root has the job"))
        return self._pump.ended is not None

    def _look_at_term(self) -> None:
        if not self._retires():
            self._pump.later(TERM_MS, self._look_at_term)

    # -- nodes --------------------------------------------------------------------------------

    def _watch_nodes(self) -> None:
        """On a thread of its own, as the cluster's directory may be away for a while."""
        while not self._ended.wait(NODES_MS / 1000):
            try:
                nodes = _nodes()
            except RayError as e:
                _log.warning("the cluster does not say which nodes it has: %s", e)
                continue
            if nodes.keys() != self._nodes.keys():
                self._nodes = nodes
                self._pump.post(ask.Nodes(tuple(nodes)))
                self._pump.do(self._have_nodes)

    def _have_nodes(self) -> None:
        """Which nodes there are has changed."""
        self._spawning.keep(self._nodes)
        self._reserve.keep_nodes(self._nodes)

    def _name_of(self, node: str) -> str:
        return self._nodes.get(node, node[:8])

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

    def _flush(self) -> None:
        self._post.flush()

    def _end(self, why: str) -> None:
        """The machine has exited. A stopped job needs no root, nor does one that another pair has;
        what broke down, or was followed by the other of its pair, is restarted by Ray, to stand by.
        """
        self._reason = why
        self._ended.set()
        self._spawning.keep(())
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


def _nodes() -> dict[str, str]:
    """The nodes that can be used now: by id, their names."""
    look: Any = ray.nodes
    return {node["NodeID"]: node["NodeName"] for node in look() if node["Alive"]}
