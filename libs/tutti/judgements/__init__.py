"""What judgements of people say: annotators' reliability and leanings, agreement, intervals of win rates.

Pure functions of numpy arrays. Equal judgements in equal order give equal results.
"""
