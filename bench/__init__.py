"""Measurements: one form for every bench (`harness`), and one module a bench."""
