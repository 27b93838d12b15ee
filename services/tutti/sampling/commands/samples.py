"""Commands that generate text from a checkpoint, or export it."""

import shlex
from pathlib import Path
from typing import Any

import click

from tutti.backbone.files import RealFiles
from tutti.backbone.folders import new_folder
from tutti.cli import waiting
from tutti.cli.access import reached
from tutti.cli.connection import connection_options
from tutti.cli.identity import fresh_id
from tutti.cli.naming import LATEST, chosen
from tutti.cli.output import JSON, output_option, patiently, print_json, print_one, say
from tutti.cli.targets import written_to
from tutti.cli.waiting import cancelling
from tutti.client import Client
from tutti.client.fetching import fetch
from tutti.client.plain import plain
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.sampling.v1 import (
    FORMAT_HUGGING_FACE,
    CreateExportRequest,
    CreateSampleRequest,
    Export,
    ExportedFile,
    ExportSpec,
    ReadExportRequest,
    ReadSampleRequest,
    SampleSpec,
)
from tutti.report import passages
from tutti.sampling.dtypes import DTYPES

FORMATS = {"hf": FORMAT_HUGGING_FACE}
MOST = 2**31 - 1
SHOWN_SPANS = 5
PROMPTED = ("tutti", "sample", "--prompt")
STOPS = {"end": "the model", "tokens": "length limit (--tokens)", "context": "the model's context, which is full"}


def readable(context: click.Context, parameter: click.Parameter, prompts: tuple[str, ...]) -> tuple[str, ...]:
    """The prompts as they are. Raises click.BadParameter for bytes that are no UTF-8."""
    for prompt in prompts:
        try:
            prompt.encode()
        except UnicodeEncodeError as error:
            raise click.BadParameter(f"{prompt!r} is not UTF-8 text", context, parameter) from error
    return prompts


@click.command("sample", short_help="Generate text from a checkpoint.")
@click.argument("checkpoint", default=LATEST)
@click.option(
    "--prompt", "prompts", multiple=True, default=("",), callback=readable,
    help="Text to continue; repeatable. Without one, a new text is generated.",
)  # fmt: skip
@click.option(
    "--tokens",
    type=click.IntRange(1, MOST),
    default=100,
    show_default=True,
    help="Maximum number of tokens to generate for each prompt.",
)
@click.option(
    "--temperature",
    type=float,
    default=1.0,
    show_default=True,
    help="Sampling temperature; 0: always the most likely token.",
)
@click.option(
    "--top-p",
    type=float,
    default=1.0,
    show_default=True,
    help="Only the most likely tokens that together reach this probability.",
)
@click.option(
    "--top-k",
    type=click.IntRange(0, MOST),
    default=0,
    show_default=True,
    help="Only this number of most likely tokens; 0: all.",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**53 - 1), default=0, show_default=True, help="The same seed gives the same text."
)
@click.option(
    "--spans/--no-spans", default=True,
    help=f"Show what of a text, {passages.LEAST} tokens in a row or more, stands in what the model was trained on.",
)  # fmt: skip
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
    """Let CHECKPOINT continue texts: the newest unless it is given; a run or a job means its newest.

    \b
    tutti sample --prompt "Return a copy" --prompt "class " --tokens 50
    tutti sample runs/ID --prompt "Return a copy" --temperature 0                # always the likeliest
    tutti sample checkpoints/JOB/0/800 --prompt "Return a copy" --seed 7 -o json

    Where its dataset has an index (`index: true` in the recipe) the verbatim spans of a text are shown below it, with
    documents that hold them and the steps that saw those; of a mixture the datasets without one are named.
    """
    if any(character.isspace() for character in checkpoint):
        raise click.UsageError(f"no checkpoint has blanks in its name; type `{shlex.join([*PROMPTED, checkpoint])}`")
    spec = SampleSpec(
        prompts=prompts,
        tokens=tokens,
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        seed=seed,
    )
    with reached(**where) as platform:
        client = platform.client
        spec.checkpoint = chosen(client, "checkpoints", checkpoint)
        client.committer.GetCheckpoint(GetRequest(name=spec.checkpoint))
        wanted = fresh_id()
        request = CreateSampleRequest(request_id=wanted, name=f"samples/{wanted}", spec=spec)
        name = client.sampling.CreateSample(request).sample.name
        with cancelling(client.sampling.CancelSample, name), patiently(f"{spec.checkpoint} writes"):
            done = waiting.done(lambda: client.sampling.GetSample(GetRequest(name=name)), platform.ended)
        found = [plain(each) for each in client.sampling.ReadSample(ReadSampleRequest(name=name)).continuations]
        if spans:
            with patiently("looks for verbatim spans"):
                found = passages.continued(client, found, spec.checkpoint, warn=say)
    if output == JSON:
        print_json(plain(done) | {"continuations": found})
        return
    for number, each in enumerate(found):
        if number:
            click.echo()
        click.echo(f"{each['prompt']}{each['text']}")
        say(f"[{each['tokens']} tokens; ended by: {STOPS.get(each['stop'], each['stop'])}]")
        for passage in passages.longest(each.get("passages") or [], SHOWN_SPANS):
            for line in passages.lines(passage):
                say(f"  {line}")
        if spans and not each["passages"] and (words := passages.nothing(each)):
            say(f"  {words}")
    if spans and (gone := passages.unsearched(found)):
        say(gone)


def extend(group: click.Group) -> None:
    """Add the export to the group `checkpoints`."""

    @group.command("export", short_help="Export model and tokenizer for Hugging Face's transformers.")
    @click.argument("name", default=LATEST)
    @click.option("--format", "wanted", type=click.Choice(list(FORMATS)), default="hf", show_default=True)
    @click.option(
        "--dtype",
        type=click.Choice(DTYPES),
        default=DTYPES[0],
        show_default=True,
        help="Type of the weights; float32 is what is trained, bfloat16 takes half the space.",
    )
    @click.option("--to", "folder", type=click.Path(path_type=Path), required=True, help="Folder to create.")
    @output_option
    @connection_options
    def export(name: str, wanted: str, dtype: str, folder: Path, output: str, **where: Any) -> None:
        """Write model and tokenizer of checkpoint NAME into a new folder, for others to read.

        \b
        tutti checkpoints export checkpoints/JOB/0/800 --format hf --to exported

        hf: config.json, model.safetensors, tokenizer.json and more, which AutoModelForCausalLM and AutoTokenizer of
        transformers read. The folder is there whole or not at all.
        """
        with (
            written_to(folder, "--to"),
            new_folder(RealFiles(), folder.absolute()) as made,
            reached(**where) as platform,
        ):
            client = platform.client
            checkpoint = chosen(client, "checkpoints", name)
            spec = ExportSpec(checkpoint=checkpoint, format=FORMATS[wanted], dtype=dtype)
            client.committer.GetCheckpoint(GetRequest(name=spec.checkpoint))
            request_id = fresh_id()
            request = CreateExportRequest(request_id=request_id, name=f"exports/{request_id}", spec=spec)
            resource = client.sampling.CreateExport(request).export.name
            with cancelling(client.sampling.CancelExport, resource), patiently(f"writes {spec.checkpoint}"):
                done = waiting.done(lambda: client.sampling.GetExport(GetRequest(name=resource)), platform.ended)
            for file in done.files:
                written(client, done, file, made)
        if output == JSON:
            print_json(plain(done) | {"folder": str(folder)})
        else:
            print_one({"folder": str(folder), "files": [file.name for file in done.files]}, output)


def written(client: Client, export: Export, file: ExportedFile, folder: Path) -> None:
    """Fetch a file of an export into a folder. Raises Failure when its bytes are not those that were digested."""

    def piece(at: int) -> bytes:
        return client.sampling.ReadExport(ReadExportRequest(name=export.name, file=file.name, offset=at)).data

    again = "export again"
    fetch(piece, folder / file.name, size=file.bytes, digest=file.bytes_digest, name=file.name, otherwise=again)
