"""Spans: which runs of tokens stand word for word in a dataset, and in which documents.

`building.build` makes an index of the token shards of a split, `index.Index` answers from it.
"""
