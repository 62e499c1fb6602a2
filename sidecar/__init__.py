"""The sidecar: high availability for anybody's stream, the merger as a service over gRPC.

It is another shell of the machines in `failover`: what pushes is an input of a merger, what reads
is a subscriber of it. Here are the sockets, the files and the clock; no rule of the output is.
"""
