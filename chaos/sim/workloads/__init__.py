"""What simulated jobs compute: queries, their source rows, and their tables by plain Python."""
