"""High availability as pure state machines: replica, merger, subscriber, and their messages."""
