"""The flight recorder: what a machine was given last, and what it was before that."""
