"""Judgements: pairs, their storage, checks and the habits of annotators."""
