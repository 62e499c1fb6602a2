"""The subscriber: its machine, cursors over mergers, tokens, and final events."""
