"""The command line, one module a group of commands. `gapless.cli` puts them together.

A command parses, calls, prints. What it calls is imported inside it: Ray, Spark and Arrow take
seconds, and `--help` should not wait for them. `terminal` holds what every
command does in the same way: the exit codes, JSON, tables, progress.
"""
