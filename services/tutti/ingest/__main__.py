"""The ingest service as a process of its own."""

from tutti.chassis.runtime.main import main

main("ingest")
