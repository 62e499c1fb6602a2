"""The operators of a plan, each a state machine over frames, none of them in need of order."""
