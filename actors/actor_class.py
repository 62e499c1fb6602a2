"""How a class becomes an actor: with threads of its own for calls that wait.

    default     one thread: calls are taken one after the other, in the order of each caller
    "ask"       calls that wait for an answer          "watch"     calls that wait for an end

A class that Ray has wrapped can be used no other way, so it is wrapped where an actor is made, and
the class itself stays one that a test may call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ray


def actor_class(
    of: type, methods: Mapping[str, str], threads: Mapping[str, int], *, max_restarts: int
) -> Any:
    """`of` as an actor class. `methods`: in which group each is that is not in the default one;
    `threads`: of each group.
    """
    method: Any = ray.method
    remote: Any = ray.remote
    grouped = {
        name: method(concurrency_group=group)(getattr(of, name)) for name, group in methods.items()
    }
    wrap = remote(
        num_cpus=0,
        max_restarts=max_restarts,
        max_task_retries=0,  # a message is resent by its sender, or not at all
        concurrency_groups=dict(threads),
    )
    return wrap(type(of.__name__, (of,), {**grouped, "__module__": of.__module__}))


def entitle(actor: object, job: str, slot: str) -> None:
    """From now on lists of processes say whose this one is, as `gapless talkers r0.1`, except for
    the moments in which it takes a call.

    Ray writes its own title at the end of each call, with the name of the actor's class: so that is
    what has to name the slot. Nothing else of the class changes.
    """
    kind = type(actor)
    actor.__class__ = type(f"gapless {job} {slot}", (kind,), {"__module__": kind.__module__})
