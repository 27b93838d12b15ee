"""Queue, gangs, epochs and the topology of training jobs."""
