"""The evaluation service as a process of its own."""

from tutti.chassis.main import main

main("evaluation")
