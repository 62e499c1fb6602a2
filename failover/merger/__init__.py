"""The merger: its machine, its inputs, its output journal, and those who read its output."""
