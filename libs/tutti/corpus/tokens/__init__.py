"""Tokens: the tokenizer, shards of tokens, and batches drawn from them."""
