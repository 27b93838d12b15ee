"""The history of the tables of tokenization."""
