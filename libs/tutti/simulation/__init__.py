"""Simulation: all services in one thread, under injected faults, repeated by a seed."""

from tutti.simulation.controls import Control
from tutti.simulation.faults import RATES, Fault
from tutti.simulation.lives import AgentHost, BuildAgent
from tutti.simulation.oracle import fold
from tutti.simulation.simulation import Simulation, SimulationFailed
from tutti.simulation.world import RuleBroken

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
