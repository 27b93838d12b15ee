"""Recipes carried out as sagas of stages."""
