"""Durable partitions: what replicas read, and what mergers deliver."""
