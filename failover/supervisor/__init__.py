"""The supervisor: its machine, the fleet, failure detection, placement, replacement and cutover."""
