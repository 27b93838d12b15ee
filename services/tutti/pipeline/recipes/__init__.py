"""Recipes: their keys, bounds and values."""
