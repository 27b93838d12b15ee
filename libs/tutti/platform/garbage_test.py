"""Garbage collection around the start of a process, in processes of their own."""

import subprocess
import sys

import pytest


def run(program: str) -> str:
    """Return the output of a Python program."""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


COUNTED = """
import gc
from tutti.platform.garbage import kept
collections = []
gc.callbacks.append(lambda phase, information: collections.append(phase))
with kept():
    made = [[] for _ in range(100_000)]
    inside = len(collections)
made += [[] for _ in range(100_000)]
print(inside, len(collections) > inside)
"""


def test_nothing_is_collected_while_objects_are_made_that_are_kept() -> None:
    assert run(COUNTED) == "0 True"


CYCLES = """
import gc, weakref
from tutti.platform.garbage import kept

class Node:
    def __init__(self):
        self.itself = self

with kept():
    early = weakref.ref(Node())
late = weakref.ref(Node())
gc.collect()
print(early() is None, late() is None)
"""


def test_only_what_was_made_later_is_looked_at() -> None:
    assert run(CYCLES) == "False True"


OLD_CYCLES = """
import gc, weakref
from tutti.platform.garbage import collect_until

class Node:
    def __init__(self):
        self.itself = self

node = Node()
old = weakref.ref(node)
gc.collect()
del node
gc.collect(1)
before = old() is None
waits = []
collect_until(lambda seconds: waits.append(seconds) or len(waits) == 2)
print(before, old() is None)
"""


def test_old_objects_are_freed_too_while_a_process_serves() -> None:
    assert run(OLD_CYCLES) == "False True"


def test_a_process_that_does_not_collect_is_left_so() -> None:
    program = "import gc; from tutti.platform.garbage import kept; gc.disable()\nwith kept(): pass"
    assert run(f"{program}\nprint(gc.isenabled())") == "False"


@pytest.mark.parametrize("module", ["tutti.platform.garbage", "tutti.cli"])
def test_it_is_there_before_anything_heavy_is(module: str) -> None:
    heavy = {"click", "grpc", "logging", "google.protobuf", "opentelemetry"}
    assert run(f"import sys, {module}; print(sorted({heavy} & set(sys.modules)))") == "[]"
