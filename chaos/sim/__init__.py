"""The simulator: production machines in virtual time, with a network and disks that fail."""
