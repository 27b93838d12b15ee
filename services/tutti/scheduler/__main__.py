"""The scheduler as a process of its own."""

from tutti.platform.entry import run

run("scheduler")
