"""Faults of a real cluster, a file for each way in which something breaks.

    fault.py               what a fault is: what it says of itself, `inject`, `heal`, `struck`
    all.py                 the list of them, which the command, the scenarios and the tests read

    kill.py, stop.py       one process: a replica, a merger, the root
    by_order.py            base of those that hooks inside of processes do: messages, clock, disk
    on_the_way.py          base of those of the network between a node and the others
    spoils_checkpoints.py  base of those of checkpoints

Where a new fault goes:

    the same to another role      a class beside the others: `role`, `messages` or `whom` differ
    another way to break          a file of its own, with `name`, `about` and `inject`

Then a line in all.py, its name in docs/chaos.md, and a scenario in the library; tests hold that.
"""
