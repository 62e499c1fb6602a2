"""Ray shells of the state machines in `failover`, and the handle of a job. They pump, no more."""

import os

# What Ray prints to the standard output of every connected program, whenever a process or a node
# dies: advice of a paragraph on what the job's own status says in a line. Ray reads this as it is
# imported, so it stands before all that imports it; a program that has it printed sets it to "".
os.environ.setdefault(
    "RAY_DEDUP_LOGS_SKIP_REGEX",
    "A worker died or was killed|has been marked dead because|Raylet is terminated",
)
