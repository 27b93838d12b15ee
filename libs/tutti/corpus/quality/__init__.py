"""Classifiers of texts: features, weights, and the windows in which long texts are judged."""
