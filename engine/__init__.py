"""Queries, the plans that run them, and the graph of operators that a plan is."""
