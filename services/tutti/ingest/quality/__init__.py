"""Quality: what a text is like, in counts, and rules that decide by them.

Words and their statistics, published rules, personal data, language: pure functions of text and Arrow batches.
"""
