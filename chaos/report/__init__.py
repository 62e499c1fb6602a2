"""The report of a drill: its page, its timeline, and its files."""
