"""Conversations: their sets, layouts, templates, judgements and experiences."""
