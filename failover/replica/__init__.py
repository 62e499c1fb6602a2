"""The replica: its machine, its tail and the links that carry it, jumpstart and checkpoints."""
