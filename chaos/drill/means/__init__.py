"""Means: what faults work with. Signals, control groups, small disks, a network of our own, and
hooks inside the processes of a job.

Whatever one of them leaves in the machine, the janitor takes away, however the run ends.
"""
