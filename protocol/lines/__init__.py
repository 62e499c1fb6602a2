"""Lines of text as rows: cut into blocks, parsed by format, each value by one rule."""
