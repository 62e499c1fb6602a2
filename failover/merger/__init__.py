"""The merger: one output of what several replicas say.

input_sessions.py    a frame arrives: is it new, late, repeated, of a life that was replaced?
merge/lmerge.py      what it adds to the output; the join gate
output_writer.py     the way to the disk, one append at a time; what happens when it is full
durable_output.py    what is durable, and how the output ends
readers.py           subscribers: cursors, tables (openings.py, scan.py), recent_rows.py
backfill.py          a merger that is behind reads its peer's output
output_journal.py    what is on the disk; read by output_reader.py
"""
