"""Batches of a policy: rollouts, rewards and the workers that answer."""
