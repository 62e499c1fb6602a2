"""What the effects of each machine do: one interpreter a machine, for every shell that runs it."""
