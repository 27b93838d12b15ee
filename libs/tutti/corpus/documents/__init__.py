"""Documents: shards of texts, and what stages decided about them."""
