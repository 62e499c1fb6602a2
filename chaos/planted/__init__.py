"""Machines with one fault each; `chaos/planted/builds.py` makes builds of them."""
