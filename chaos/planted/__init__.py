"""Machines with one fault each; `chaos/broken.py` makes builds of them."""
