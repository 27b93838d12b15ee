"""The lifeline of a rank: its conversation with the agent, kept by a thread of its own.

When the agent ends, or is silent for too long, the rank exits at once, even inside a collective. A request for a flight
record is answered while the main thread hangs.
"""

import faulthandler
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable
from enum import IntEnum

from tutti.chassis.runtime.frames import current_frames
from tutti.contracts.trainer.v1 import FlightRecord, Heartbeat, RankMessage, Start
from tutti.model.stall import STORING
from tutti.trainer.framing import BlockingChannel, FramingError

WAITING_FOR_BUFFER = STORING
"""A phase in which a rank may stand for long: the node stores slower than it trains, and says so."""
WAITING_FOR_WEIGHTS = "waiting for the weights of the actors"
"""The phase of a rollout worker while the actors train: their nodes notice if they hang."""


class Exit(IntEnum):
    """Exit codes of a rank."""

    FINISHED = 0
    FAILED = 1
    ALONE = 70
    """the agent is gone or silent"""
    STOPPED = 75


class Stopped(Exception):
    """The agent asked this rank to stop."""


class Lifeline:
    """`step` and `phase` are what a flight record will say; the main thread sets them.

    `work` counts what the rank has computed; the thread calls it at every heartbeat, so that the agent tells a long
    step from one that hangs.
    """

    def __init__(
        self,
        channel: BlockingChannel[RankMessage],
        *,
        silence: float,
        collectives: Callable[[], str],
        leave: Callable[[int], None] = os._exit,
    ) -> None:
        self.step, self.phase = 0, "starting"
        self.work: Callable[[], int] = lambda: 0
        self._channel, self._silence, self._collectives, self._leave = channel, silence, collectives, leave
        self._stop = threading.Event()
        self._free: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._rendezvous: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._keep, name="lifeline", daemon=True).start()

    def send(self, message: RankMessage) -> None:
        """Raises OSError when the agent is gone; the thread exits the process then anyway."""
        self._channel.send(message)

    def check_stop(self) -> None:
        """For step boundaries. Raises Stopped."""
        if self._stop.is_set():
            raise Stopped

    def free_buffer(self) -> int:
        """Wait for the agent to give a snapshot buffer back. Raises Stopped."""
        buffer = self._free.get()
        if buffer is None:
            raise Stopped
        return buffer

    def rendezvous(self, seconds: float) -> str | None:
        """The address of the rendezvous, None when it did not come in time. Raises Stopped."""
        try:
            address = self._rendezvous.get(timeout=seconds)
        except queue.Empty:
            return None
        if address is None:
            raise Stopped
        return address

    def _keep(self) -> None:
        try:
            self._converse()
        except (EOFError, OSError, FramingError) as error:
            reason = str(error) or type(error).__name__
        except BaseException:
            traceback.print_exc()
            reason = "the lifeline broke"
        else:
            reason = f"no word from the agent for {self._silence:g} s"
        sys.stderr.write(f"rank exits in step {self.step}, {self.phase}: {reason}\n")
        self._leave(Exit.ALONE)

    def _converse(self) -> None:
        pulse = min(1.0, self._silence / 4)
        heard = said = time.monotonic()
        while time.monotonic() - heard < self._silence:
            # Should this thread never get the interpreter again, a timer outside of it ends the process.
            faulthandler.dump_traceback_later(2 * self._silence, exit=True)
            message = self._channel.receive(pulse / 2)
            now = time.monotonic()
            if message is not None:
                heard = now
                self._take(message)
            if now - said >= pulse and self._channel.try_send(RankMessage(heartbeat=Heartbeat(work=self.work()))):
                said = now

    def _take(self, message: RankMessage) -> None:
        match message.WhichOneof("body"):
            case "stop":
                self._stop.set()
                self._free.put(None)
                self._rendezvous.put(None)
            case "buffer_free":
                self._free.put(message.buffer_free.buffer)
            case "rendezvous":
                self._rendezvous.put(message.rendezvous.address)
            case "dump":
                self._channel.try_send(RankMessage(flight_record=self._record()))

    def _record(self) -> FlightRecord:
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        stacks = [
            f"{names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame))}"
            for ident, frame in current_frames().items()
            if ident != threading.get_ident()
        ]
        return FlightRecord(step=self.step, phase=self.phase, stacks="\n".join(stacks), collectives=self._collectives())


def first_message(channel: BlockingChannel[RankMessage], seconds: float) -> Start | None:
    """The first message of the agent; None when it is not a Start, or does not come."""
    try:
        message = channel.receive(seconds)
    except EOFError:
        return None
    return message.start if message is not None and message.WhichOneof("body") == "start" else None
