"""Campaigns: their lifecycle, and the desk that hands out pairs."""
