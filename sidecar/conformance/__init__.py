"""A peer that examines clients of the sidecar's protocol, in any language, against its rules.

    the client  --Push-->  peer.py       a real server, that acknowledges, withholds and breaks off
                              |
                           judge.py      what came against the rules (rules.py) and the workload

The client pushes what workload.py says, to two streams, as its own program would. What it is to
do is in docs/sidecar.md: the rules, and the examination.
"""
