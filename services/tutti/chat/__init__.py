"""Answers of language models: replicas that generate tokens, and the router that sends requests to them."""
