"""What a checkpoint says: texts that it continues, and files in which others can read it."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from tutti.backbone.files import RealFiles
from tutti.backbone.folders import new_folder
from tutti.chassis.client import Client, Problem
from tutti.cli import interrupt, passages
from tutti.cli.checkpoints import full
from tutti.cli.connection import connected, connection_options
from tutti.cli.failures import Failure
from tutti.cli.identity import fresh_id
from tutti.cli.output import JSON, output_option, patiently, print_json, print_one, say
from tutti.cli.plain import plain
from tutti.cli.platform import Platform, running
from tutti.cli.progress import ENDED, PATIENCE_SECONDS
from tutti.contracts.common.v1 import STATE_DONE, CancelRequest, GetRequest
from tutti.contracts.sampling.v1 import (
    FORMAT_HUGGING_FACE,
    CreateExportRequest,
    CreateSampleRequest,
    Export,
    ExportSpec,
    ReadExportRequest,
    ReadSampleRequest,
    Sample,
    SampleSpec,
)
from tutti.corpus.canonical import file_digest

FORMATS = {"hf": FORMAT_HUGGING_FACE}
LOOK_SECONDS = 0.1
MOST = 2**31 - 1
SHOWN_SPANS = 5


def readable(context: click.Context, parameter: click.Parameter, prompts: tuple[str, ...]) -> tuple[str, ...]:
    """The prompts as they are. Raises click.BadParameter for bytes that are no UTF-8."""
    for prompt in prompts:
        try:
            prompt.encode()
        except UnicodeEncodeError as error:
            raise click.BadParameter(f"{prompt!r} is not UTF-8 text", context, parameter) from error
    return prompts


@click.command("sample")
@click.argument("checkpoint")
@click.option(
    "--prompt", "prompts", multiple=True, default=("",), callback=readable,
    help="Text to continue, again for each; without one a new text begins.",
)  # fmt: skip
@click.option(
    "--tokens", type=click.IntRange(1, MOST), default=100, show_default=True, help="At most so many follow each prompt."
)
@click.option("--temperature", type=float, default=1.0, show_default=True, help="0: the likeliest token each time.")
@click.option("--top-p", type=float, default=1.0, show_default=True, help="The likeliest that together reach it.")
@click.option("--top-k", type=click.IntRange(0, MOST), default=0, show_default=True, help="So many likeliest; 0: all.")
@click.option(
    "--seed", type=click.IntRange(0, 2**53 - 1), default=0, show_default=True, help="The same seed, the same text."
)
@click.option("--spans/--no-spans", default=True, help="Show what of a text the model was trained on word for word.")
@output_option
@connection_options
def sample(
    checkpoint: str,
    prompts: tuple[str, ...],
    tokens: int,
    temperature: float,
    top_p: float,
    top_k: int,
    seed: int,
    spans: bool,
    output: str,
    **where: Any,
) -> None:
    """Let CHECKPOINT continue texts, such as `--prompt "The cat"`.

    Where its dataset has an index (`index: true` in the recipe) the verbatim spans of a text are shown below it, with
    documents that hold them and the steps that saw those.

    Where nobody serves the data directory the platform is started for the time being.
    """
    spec = SampleSpec(
        checkpoint=full(checkpoint),
        prompts=prompts,
        tokens=tokens,
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        seed=seed,
    )
    with reached(**where) as platform:
        client = platform.client
        client.committer.GetCheckpoint(GetRequest(name=spec.checkpoint))
        wanted = fresh_id()
        request = CreateSampleRequest(request_id=wanted, name=f"samples/{wanted}", spec=spec)
        name = client.sampling.CreateSample(request).sample.name
        with cancelling(client, name), patiently(f"{spec.checkpoint} writes"):
            done = ended(platform, name)
        found = [plain(each) for each in client.sampling.ReadSample(ReadSampleRequest(name=name)).continuations]
        if spans:
            with patiently("looks for verbatim spans"):
                found = passages.continued(client, found, spec.checkpoint)
    if output == JSON:
        print_json(plain(done) | {"continuations": found})
        return
    for number, each in enumerate(found):
        if number:
            click.echo()
        click.echo(f"{each['prompt']}{each['text']}")
        say(f"[{each['tokens']} tokens; ended by: {each['stop']}]")
        for passage in passages.longest(each.get("passages") or [], SHOWN_SPANS):
            for line in passages.lines(passage):
                say(f"  {line}")


def extend(group: click.Group) -> None:
    """Add the export to the group `checkpoints`."""

    @group.command("export", help="Write model and tokenizer of a checkpoint into a new folder, for others to read.")
    @click.argument("name")
    @click.option("--format", "wanted", type=click.Choice(list(FORMATS)), default="hf", show_default=True)
    @click.option("--to", "folder", type=click.Path(path_type=Path), required=True, help="A folder that is not there.")
    @output_option
    @connection_options
    def export(name: str, wanted: str, folder: Path, output: str, **where: Any) -> None:
        spec = ExportSpec(checkpoint=full(name), format=FORMATS[wanted])
        with taken(folder), new_folder(RealFiles(), folder.absolute()) as made, reached(**where) as platform:
            client = platform.client
            client.committer.GetCheckpoint(GetRequest(name=spec.checkpoint))
            request_id = fresh_id()
            request = CreateExportRequest(request_id=request_id, name=f"exports/{request_id}", spec=spec)
            resource = client.sampling.CreateExport(request).export.name
            with cancelling(client, resource), patiently(f"{spec.checkpoint} is written"):
                done = ended(platform, resource)
            assert isinstance(done, Export)
            for file in done.files:
                fetch(client, done, file.name, made / file.name)
        if output == JSON:
            print_json(plain(done) | {"folder": str(folder)})
        else:
            print_one({"folder": str(folder), "files": [file.name for file in done.files]}, output)


def fetch(client: Client, export: Export, name: str, to: Path) -> None:
    """Fetch a file of an export piece by piece. Raises Failure when its bytes are not those that were digested."""
    expected = next(file.bytes_digest for file in export.files if file.name == name)
    with to.open("xb") as file:
        while True:
            request = ReadExportRequest(name=export.name, file=name, offset=file.tell())
            if not (data := client.sampling.ReadExport(request).data):
                break
            file.write(data)
    if (seen := file_digest(to)) != expected:
        raise Failure(f"{name} came with digest {seen}, expected {expected}; export again")


@contextlib.contextmanager
def taken(folder: Path) -> Iterator[None]:
    """A folder that holds something is misuse."""
    try:
        yield
    except FileExistsError as error:
        raise click.BadParameter(str(error), param_hint="'--to'") from error


@contextlib.contextmanager
def reached(data_dir: Path, address: str | None) -> Iterator[Platform]:
    """The platform at an address, or of a data directory, which is started when nobody serves it."""
    if address:
        with connected(data_dir, address) as client:
            yield Platform(client)
    else:
        with running(data_dir) as platform:
            yield platform


@contextlib.contextmanager
def cancelling(client: Client, name: str) -> Iterator[None]:
    """Ctrl-C ends the work too: nobody else waits for it."""
    try:
        yield
    except KeyboardInterrupt:
        request = CancelRequest(name=name, request_id=fresh_id())
        client.sampling.CancelSample(request) if name.startswith("samples/") else client.sampling.CancelExport(request)
        raise


def ended(platform: Platform, name: str) -> Sample | Export:
    """Wait until a sample or an export is done. Raises Failure when it ends otherwise."""
    sampling = platform.client.sampling
    get = sampling.GetSample if name.startswith("samples/") else sampling.GetExport
    last_word = time.monotonic()
    while True:
        interrupt.check()
        try:
            found = get(GetRequest(name=name))
            last_word = time.monotonic()
        except Problem as problem:
            if not problem.transient or platform.ended() or time.monotonic() - last_word > PATIENCE_SECONDS:
                raise
        else:
            if found.state == STATE_DONE:
                return found
            if found.state in ENDED:
                raise Failure(found.reason)
        time.sleep(LOOK_SECONDS)
