"""The replica: runs the plan over the sources, and sends what comes out to every merger.

jumpstart.py         how a life that takes the place of a killed one gets its state
initial_state.py     and goes on from it: a peer's, a checkpoint's, or a replay of the sources
intake.py            rows, through the plan, into the tail
tail.py              what a merger may still need; link.py and output_sender.py bring it there
fast_forward.py      what mergers have settled is not made any more
snapshots.py         what it gives of itself: to a peer that joins, to checkpoint.py
"""
