"""Starts Ray on one core, runs a task, ends it: `python -m gapless.doctor.start_ray DIR`.

Ray listens on all of the machine's addresses, so this one demands a token, made for this run and
kept nowhere. It joins no cluster that happens to run and leaves none to be joined.
"""

from __future__ import annotations

import os
import sys
from secrets import token_hex

OBJECT_STORE_BYTES = 80 * 2**20
"""Just above the least that Ray takes (75 MiB), so that it fits where there is little memory."""


def main(directory: str) -> None:
    """Raises whatever Ray raises; returns once Ray has ended."""
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ["RAY_AUTH_TOKEN"] = token_hex(32)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray  # only now: Ray reads its settings while it is being imported

    ray.init(
        address="local",
        num_cpus=1,
        object_store_memory=OBJECT_STORE_BYTES,
        include_dashboard=False,
        log_to_driver=False,
        _temp_dir=directory,
        _node_ip_address="127.0.0.1",
    )
    try:
        answer = ray.get(ray.remote(lambda: 6 * 7).remote())
        if answer != 42:
            raise RuntimeError(f"a task that computes 42 returned {answer!r}")
    finally:
        ray.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])
