"""The tokenization service as a process of its own."""

from tutti.chassis.runtime.entry import run

run("tokenization")
