"""`tutti serve`: a checkpoint answers requests, on a platform that is up or that the command starts."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from tutti.chassis.config.datadir import DEFAULT
from tutti.chat.commands.awaiting import awaited
from tutti.cli import INTERRUPTED
from tutti.cli.access import upheld
from tutti.cli.connection import connection_options
from tutti.cli.failures import Failure
from tutti.cli.groups import drawn
from tutti.cli.identity import fresh_id
from tutti.cli.naming import LATEST, resolved
from tutti.cli.output import JSON, output_option, patiently, print_json, say
from tutti.cli.pages import pages_of
from tutti.cli.platform import Platform
from tutti.cli.waiting import answers
from tutti.client import Client, Problem
from tutti.client.plain import plain
from tutti.client.resources import full_name
from tutti.contracts.chat.v1 import (
    DEPLOYMENT_STATE_FAILED,
    DEPLOYMENT_STATE_READY,
    DEPLOYMENT_STATE_STOPPED,
    CreateDeploymentRequest,
    Deployment,
    DeploymentSpec,
    StopDeploymentRequest,
)
from tutti.contracts.common.v1 import GetRequest
from tutti.report.hints import typed

ENDED = (DEPLOYMENT_STATE_STOPPED, DEPLOYMENT_STATE_FAILED)
READY_SECONDS, LOOK_SECONDS, END_SECONDS = 120.0, 1.0, 20.0
MOST_JOB = 90


@click.command("serve", short_help="Let a checkpoint answer requests, as OpenAI's clients send them.")
@click.argument("checkpoint", default=LATEST)
@click.option("--name", default="", help="Name of the deployment, which clients send as `model`.")
@click.option("--replicas", type=click.IntRange(1, 16), default=1, show_default=True,
              help="Processes that generate; if one dies, the others finish its answers.")  # fmt: skip
@click.option("--context", type=click.IntRange(min=0), default=0, metavar="TOKENS",
              help="Tokens of prompt and answer at most, a multiple of 16; at most those of the model. Without it, "
              "those of a row of its training; of an import 1024, or fewer if the memory holds no more.")  # fmt: skip
@click.option("--streams", type=click.IntRange(min=0), default=0, metavar="COUNT",
              help="Answers that each process computes at once, a multiple of 16; without it 32.")  # fmt: skip
@click.option("--experimental", is_flag=True, help="Serve a checkpoint that has no active release.")
@click.option("--filter", "filtered", default="", metavar="FILE|CLASSIFIER|none",
              help="Withhold what matches the rules of a file, or what a trained classifier of windows refuses. "
              "Without it, a deployment keeps its filter; a new one has none.")  # fmt: skip
@click.option("--detach", is_flag=True, help="Return when it answers; the platform must run.")
@click.option("--deadline", type=click.FloatRange(min=1), default=READY_SECONDS, show_default=True,
              help="Seconds until it must answer.")  # fmt: skip
@output_option
@connection_options
def serve(
    checkpoint: str,
    name: str,
    replicas: int,
    context: int,
    streams: int,
    experimental: bool,
    filtered: str,
    detach: bool,
    deadline: float,
    output: str,
    data_dir: Path,
    address: str | None,
) -> None:
    """Let CHECKPOINT answer requests: the newest unless it is given; a run or a job means its newest.

    The checkpoint must know conversations, as those of a stage `sft` and of the stages after it do. Without an active
    release it is served as an experiment only.

    \b
    tutti serve runs/ID --experimental       # prints the base URL, and serves until Ctrl-C
    TOKEN=$(tutti token create --role engineer)
    curl -N BASE/chat/completions -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" \\
         -d '{"model": "NAME", "stream": true, "messages": [{"role": "user", "content": "Hello"}]}'
    tutti answers verify answers/ID          # the header x-tutti-answer of the response
    tutti serve runs/ID --experimental --filter rules.yaml

    If no platform serves the data directory, the command starts one, and Ctrl-C stops both. If a platform runs already,
    the deployment outlives this command: `tutti deployments stop NAME` stops it.
    """
    # It brings pydantic, for which few other commands wait.
    from tutti.chat.commands.filterfile import asked_of, of_option

    wanted_filter = of_option(filtered)
    with upheld(data_dir, address, detach=detach) as platform:
        client = platform.client
        full = resolved(client, "checkpoints", checkpoint)
        wanted = full_name("deployments", name or name_of(full))
        spec = DeploymentSpec(
            checkpoint=full, replicas=replicas, context=context, streams=streams, experimental=experimental
        )
        spec.filter.CopyFrom(asked_of(client, wanted, wanted_filter))
        with stopped_with_platform(platform, wanted):
            request = CreateDeploymentRequest(request_id=fresh_id(), name=wanted, spec=spec)
            client.chat.CreateDeployment(request)
            with patiently(f"starts {replicas} replicas of {full}"):
                found = ready(platform, wanted, deadline)
            tell(client, found, output, data_dir)
            if not detach:
                look_on(platform, found)


def name_of(checkpoint: str) -> str:
    """The default name of the deployment of a checkpoint."""
    job, line, step = checkpoint.removeprefix("checkpoints/").split("/")
    return f"{job[:MOST_JOB]}-{line}-{step}"


@contextlib.contextmanager
def stopped_with_platform(platform: Platform, name: str) -> Iterator[None]:
    """Stop the deployment at the end where this command stops the platform: the next start does not serve it again."""
    try:
        yield
    except KeyboardInterrupt:
        if platform.own:
            raise Failure(f"interrupted; {name} and its platform stop", INTERRUPTED) from None
        raise Failure(
            f"stopped watching; {name} still serves: `tutti deployments show {name}`, `tutti deployments stop {name}`",
            INTERRUPTED,
        ) from None
    finally:
        if platform.own:
            with contextlib.suppress(Problem):
                platform.client.chat.StopDeployment(
                    StopDeploymentRequest(name=name, request_id=fresh_id()), timeout=END_SECONDS
                )


def ready(platform: Platform, name: str, seconds: float) -> Deployment:
    """Wait until a deployment answers. Raises Failure."""
    found = awaited(platform.client, name, (DEPLOYMENT_STATE_READY, *ENDED), seconds, platform.ended)
    if found.state != DEPLOYMENT_STATE_READY:
        raise Failure(f"{name} is {plain(found)['state']}: {found.reason or 'it was stopped'}")
    return found


def tell(client: Client, found: Deployment, output: str, data_dir: Path) -> None:
    """Print where a deployment answers, and how to ask it."""
    base, model = f"{pages_of(client, 'chat')}/v1", found.name.partition("/")[2]
    if output == JSON:
        told: dict[str, Any] = {"deployment": found.name, "base_url": base, "model": model}
        told |= {"state": plain(found)["state"], "checkpoint": found.spec.checkpoint, "release": found.release}
        told |= {"sampling": plain(found.sampling), "sampling_source": found.sampling_source}
        print_json(told)
        return
    click.echo(f"deployment  {found.name}")
    click.echo(f"base URL    {base}")
    click.echo(f"model       {model}")
    click.echo(f"context     {found.context:,} tokens")
    click.echo(f"release     {found.release or 'none: this is an experiment'}")
    click.echo(f"sampling    {sampling_in_words(found)}")
    from tutti.chat.commands.filterfile import summary

    click.echo(f"filter      {summary(found.spec.filter)}")
    say(f"a token for programs: `{typed('tutti token create --role engineer', data_dir or DEFAULT)}`")


def sampling_in_words(found: Deployment) -> str:
    """The sampling of answers whose request names none, and what it follows from."""
    source = f"as {found.sampling_source}" if found.sampling_source else "as the API has it"
    return f"{drawn(plain(found.sampling))}, {source}, unless a request says other"


def look_on(platform: Platform, found: Deployment) -> None:
    """Say what changes, until the deployment ends or Ctrl-C."""
    name, seen = found.name, (found.state, found.reason)
    say(f"{name} serves; Ctrl-C {'stops it' if platform.own else 'stops watching'}")
    look = answers(lambda: platform.client.chat.GetDeployment(GetRequest(name=name)), platform.ended, LOOK_SECONDS)
    for now in look:
        state, words = plain(now)["state"], now.reason
        if (now.state, now.reason) != seen:
            seen = now.state, now.reason
            say(f"{name} is {state}{f': {words}' if words else ''}")
        if now.state in ENDED:
            if now.state == DEPLOYMENT_STATE_FAILED:
                raise Failure(f"{name} failed: {words}")
            return
