"""Counts with their nouns in words, for commands, pages and reasons.

Promises: one rule everywhere: the noun is singular for 1 alone, and thousands are separated by commas.
"""


def counted(count: int, noun: str, plural: str = "") -> str:
    """A count with its noun, such as "1 page" or "1,200 pages"; `plural` is the noun with an s unless it is given."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"
