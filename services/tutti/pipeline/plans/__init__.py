"""Plans: the graph of a recipe's stages, their reuse keys and their forecast."""
