"""A rank: its lifecycle, rendezvous and training loop."""
