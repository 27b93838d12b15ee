"""The corpus: documents, shards, manifests and the order in which training reads them.

Reading a token shard imports numpy and nothing heavier.
"""
