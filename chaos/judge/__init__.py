"""Judges: what happened in a run, as facts, and whether the output is right."""
