"""Durable files of frames: what replicas read, and what mergers deliver."""
