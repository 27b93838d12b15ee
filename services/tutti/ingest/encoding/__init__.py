"""Encodings: which characters the bytes of a page stand for, and their normal form."""
