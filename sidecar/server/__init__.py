"""The sidecar's server: streams, the calls of producers and subscribers, access, metrics."""
