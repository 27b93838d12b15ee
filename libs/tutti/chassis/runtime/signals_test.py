"""The signals that tell a process to end, in a process that gets them at the worst moment."""

import select
import signal
import subprocess
import sys

import pytest

from tutti.chassis.runtime.signals import Stop

INTERRUPTED = """
import os, signal, sys
from tutti.chassis.runtime.signals import Signals, Stop

numbers = [int(each) for each in sys.argv[2:]]
before = int(sys.argv[1])
calls = 0

def trace(frame, event, _argument):
    global calls
    calls += 1
    if numbers and calls > before:
        os.kill(os.getpid(), numbers.pop(0))  # handled before the next instruction of `wait`
    return trace

stop = Stop()
signals = Signals(stop)
sys.settrace(trace)
while not stop.wait(0.05):
    pass
sys.settrace(None)
assert stop.is_set() and stop.wait(0)
print(signals.name)
"""

ELSEWHERE = """
import signal, threading, time
from tutti.chassis.runtime.signals import Signals, Stop

def send():
    time.sleep(0.2)  # the main thread waits by now
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    time.sleep(60)

stop = Stop()
signals = Signals(stop)
threading.Thread(target=send, daemon=True).start()
assert stop.wait(50)
print(signals.name)
"""


@pytest.mark.parametrize("before", range(12))
def test_a_signal_ends_the_wait_wherever_it_interrupts_it(before: int) -> None:
    ended = interrupted(before, signal.SIGTERM)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "SIGTERM\n", "")


def test_a_signal_that_arrives_in_another_thread_ends_the_wait() -> None:
    """As one does that arrives when the main thread is about to sleep: neither interrupts its call."""
    ended = subprocess.run([sys.executable, "-c", ELSEWHERE], capture_output=True, text=True, timeout=30)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "SIGTERM\n", "")


def test_a_loop_that_waits_for_other_descriptors_too_is_woken_and_knows_the_first_reason() -> None:
    stop = Stop()
    assert not select.select([stop], [], [], 0)[0]
    stop.set("its supervisor is gone")
    stop.set("later")
    assert select.select([stop], [], [], 60)[0]
    stop.clear()
    assert not select.select([stop], [], [], 0)[0]
    assert (stop.is_set(), stop.wait(0), stop.reason) == (True, True, "its supervisor is gone")


def test_a_second_signal_ends_the_process_at_once() -> None:
    assert interrupted(1, signal.SIGINT, signal.SIGTERM).returncode == 130


def interrupted(before: int, *numbers: signal.Signals) -> subprocess.CompletedProcess[str]:
    """A process that sends itself signals when it has run so many lines of a wait."""
    command = [sys.executable, "-c", INTERRUPTED, str(before), *(str(int(each)) for each in numbers)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)
