"""The sidecar's clients: producer and consumer, blocking and for asyncio."""
