"""Simulation: all services in one thread, under injected faults, repeated by a seed."""

from tutti.chassis.simulation.controls import Control
from tutti.chassis.simulation.faults import RATES, Fault
from tutti.chassis.simulation.lives import AgentHost, BuildAgent
from tutti.chassis.simulation.oracle import fold
from tutti.chassis.simulation.simulation import Simulation, SimulationFailed
from tutti.chassis.simulation.world import RuleBroken

__all__ = [
    "RATES",
    "AgentHost",
    "BuildAgent",
    "Control",
    "Fault",
    "RuleBroken",
    "Simulation",
    "SimulationFailed",
    "fold",
]
