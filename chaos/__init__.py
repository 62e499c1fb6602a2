"""Faults, on purpose, and whether the promises hold: simulated, and on a real cluster.

sim/        the simulator: production machines in virtual time; a fault is a row of
sim/drawn_faults.py and a method of sim/strikes.py
planted/    builds with one bug each, which the simulator has to catch
drill/      scenarios on a real cluster; a fault is a class in drill/faults/
judge/      what happened in a run, and whether the output is right
report/     the page that a drill leaves
trials.py   inputs of a merger, made from a seed, for tests of users
"""
