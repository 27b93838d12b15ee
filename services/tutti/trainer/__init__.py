"""The trainer: a node's agent, its I/O child and its ranks.

Importing this package imports nothing else; a rank imports no grpc, no Kafka and no SQL.
"""
