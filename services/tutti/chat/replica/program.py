"""The program of a replica: arguments, an engine, the server of its calls, signals.

Promises: it announces its address once it can serve, and withdraws it when it ends; a step that takes too long ends the
process, whose requests then continue elsewhere; it ends with its supervisor.
"""

import argparse
import contextlib
import logging
import re
from collections.abc import Sequence
from pathlib import Path

from tutti.backbone.ours import close_to_others
from tutti.backbone.randomness import SystemRandomness
from tutti.chassis.config.arguments import absolute, add_overrides, add_places
from tutti.chassis.config.datadir import DataDir, tokens_at
from tutti.chassis.config.exits import FAILED, say
from tutti.chassis.config.settings import SettingsError, load
from tutti.chassis.identity.auth import Role, Tokens
from tutti.chassis.metrics import count_logs
from tutti.chassis.rpc.health import Health
from tutti.chassis.rpc.server import CannotListen, Refusal, RpcServer
from tutti.chassis.rpc.tls import tls_of
from tutti.chassis.runtime.signals import Signals, Stop
from tutti.chassis.service import Served
from tutti.chat.names import announced
from tutti.chat.replica.engine import started
from tutti.chat.replica.rpc import ReplicaApi
from tutti.chat.replica.sessions import Sessions
from tutti.chat.replica.stepping import Stepping
from tutti.checkpoints.errors import CheckpointError
from tutti.contracts.chat.v1.replica_pb2 import DESCRIPTOR
from tutti.inference.engine import Mode
from tutti.inference.errors import InferenceError
from tutti.model.device import NAMES, DeviceMissing, is_device
from tutti.platform import heartbeatpipe, logs
from tutti.platform.failures import guarded

log = logging.getLogger(__name__)
SERVICE = DESCRIPTOR.services_by_name["ReplicaService"]
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
LOOK_SECONDS = 1.0
STEP_SECONDS = 60.0
"""A step that takes longer is a fault: the process ends."""
WAITING = 256
"""Requests that may wait for a slot."""
DRAIN_SECONDS = 1.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal; the exit code."""
    given = _parser().parse_args(arguments)
    close_to_others()
    return guarded(
        lambda: _serve(given),
        mistakes=(DeviceMissing,),
        troubles=(CheckpointError, InferenceError, CannotListen, RuntimeError),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -P -m tutti.chat.replica", description="A replica: generates tokens with one model."
    )
    add_places(parser)
    add_overrides(parser)
    parser.add_argument("--name", default="a", help="name of the replica, one process each")
    parser.add_argument("--checkpoint", type=absolute, required=True, help="folder with a staged checkpoint")
    parser.add_argument("--mode", choices=[each.value for each in Mode], default=Mode.EXACT.value,
                        help="exact: the bits of training; fast: those of the fastest kernels")  # fmt: skip
    parser.add_argument("--slots", type=int, default=32, help="completions that are computed at once")
    parser.add_argument("--context", type=int, default=0, help="tokens of a text at most; 0: as a row of training")
    parser.add_argument("--device", default="cpu", help=NAMES)
    parser.add_argument("--listen", default="127.0.0.1:0", help="address of the server; port 0: any free port")
    return parser


def _serve(given: argparse.Namespace) -> int:
    for argument, value, holds, expected in (
        ("--name", given.name, NAME.fullmatch(given.name), "lower-case letters, digits and hyphens"),
        ("--slots", given.slots, 1 <= given.slots <= 1024, "1 to 1024"),
        ("--context", given.context, given.context >= 0, "0 or more"),
        ("--device", given.device, is_device(given.device), NAMES),
    ):
        if not holds:
            raise SettingsError(f"{argument} {value!r}: expected {expected}")
    data_dir = DataDir(given.data_dir)
    loaded = load(given.config or data_dir.config, overrides=given.set)
    values, part = loaded.values, announced(given.name)
    logs.configure(part, values.telemetry.level)
    count_logs()
    tokens = tokens_at(Path(values.rpc.tokens), [Role.SERVICE]) if values.rpc.tokens else data_dir.tokens()
    stop, failures = Stop(), list[BaseException]()

    def failed(error: BaseException) -> None:
        log.error("the engine failed", exc_info=error)
        failures.append(error)
        stop.set()

    with contextlib.ExitStack() as stack:
        stack.callback(data_dir.lock(f"replica {given.name}", f"{part}.lock").release)
        signals, heartbeat = Signals(stop), heartbeatpipe.hold(stop.set)
        heartbeat.beat()
        model = started(
            given.checkpoint, mode=Mode(given.mode), slots=given.slots, context=given.context, device=given.device
        )
        stepping = Stepping(Sessions(model.engine, given.slots + WAITING), failed)
        stepping.start()
        health = Health({"chat": [SERVICE.full_name]})
        server = RpcServer(
            [Served(SERVICE, ReplicaApi(stepping, model.opened, model.vocabulary, _name_session))],
            settings=values.rpc.model_copy(update={"listen": given.listen}),
            tokens=Tokens({Role.SERVICE: tokens.of(Role.SERVICE)}),
            health=health,
            record=_refused,
            tls=tls_of(values.tls),
        )
        address = server.start()
        stack.callback(server.drain, DRAIN_SECONDS)
        health.set("chat")
        data_dir.announce(address, part)
        stack.callback(data_dir.withdraw, address, part)
        log.info("ready at %s with %s", address, model.opened.model)
        while not stop.wait(LOOK_SECONDS):
            heartbeat.beat()
            if stepping.stepping_seconds > STEP_SECONDS:
                return say(f"a step takes longer than {STEP_SECONDS:g} s", FAILED)
        log.info("stopping: %s", signals.name or "its supervisor is gone, or its engine failed")
    return say(f"the engine failed: {failures[0]}", FAILED) if failures else 0


def _name_session() -> str:
    return f"{SystemRandomness().bits(128):032x}"


def _refused(refusal: Refusal, times: int) -> None:
    log.warning("%s from %s was refused %d times: %s", refusal.action, refusal.address, times, refusal.reason)
