"""Faults, on purpose: the simulator, its disk and workload, broken builds, trials of mergers."""
