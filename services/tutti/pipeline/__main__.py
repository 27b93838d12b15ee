"""The pipeline as a process of its own."""

from tutti.chassis.main import main

main("pipeline")
