"""Faults of a real cluster, one a file: each says what it needs, what it does, and how to undo it.

fault.py    what a fault is
all.py      the list of them
"""
