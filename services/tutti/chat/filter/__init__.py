"""The release filter: which part of a text may be shown, by rules of patterns and by a classifier of windows. Pure."""
