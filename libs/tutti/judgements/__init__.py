"""Statistics of human judgements: reliability and biases of annotators, agreement, intervals of win rates.

Pure functions of numpy arrays. Equal judgements in equal order give equal results.
"""

LEAST_CONTROLS = 10
"""Control pairs of an annotator, below which biases are not identified."""
