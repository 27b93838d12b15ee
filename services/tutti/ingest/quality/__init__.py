"""Quality: rules that decide by what was counted of a text, personal data, harm, language.

Pure functions of text and Arrow batches.
"""
