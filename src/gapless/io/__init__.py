"""Files and lines, in and out: inputs of queries, events, journals and rejects."""
