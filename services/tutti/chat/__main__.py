"""The chat service as a process of its own."""

from tutti.platform.entry import run

run("chat")
