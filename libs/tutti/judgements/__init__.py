"""Statistics of human judgements: reliability and biases of annotators, agreement, intervals of win rates.

Pure functions of numpy arrays. Equal judgements in equal order give equal results.
"""

LEAST_CONTROLS = 10
"""Control pairs of an annotator, below which the biases for a side and for length are not identified."""
LEAST_RESTYLED = LEAST_CONTROLS // 2
"""Control pairs in two formats of an annotator, below which the bias for formatting is not identified."""
