"""Tokenizers: written as the file that other programs read, and compared with others on the same texts."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from tutti.cli.connection import connected, connection_options
from tutti.cli.failures import Failure
from tutti.cli.naming import LATEST, resolved
from tutti.cli.output import JSON, output_option, patiently, print_json, print_list, say
from tutti.cli.targets import written_to
from tutti.client import Client
from tutti.client.plain import Plain
from tutti.client.resources import get_one
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.tokenization.v1 import ReadTokenizerRequest
from tutti.report.references import FILE, Reference, measured, opened, references
from tutti.report.texts import LANGUAGE_BYTES, LEAST_BYTES, UNDETERMINED, Spoken, samples, spoken

COLUMNS = ("sample", "documents", "bytes", "tokenizer", "vocabulary", "tokens", "bytes_a_token")


def extend(group: click.Group) -> None:
    """Give the group `tokenizers` its verbs."""

    @group.command("export", short_help="Export a tokenizer as tokenizer.json.")
    @click.argument("name", default=LATEST)
    @click.option(
        "--to", type=click.Path(path_type=Path), default=Path(FILE), show_default=True, help="File to create."
    )
    @output_option
    @connection_options
    def export(name: str, to: Path, output: str, **where: Any) -> None:
        """Write a tokenizer as the tokenizer.json that `tokenizers` and `transformers` read."""
        with connected(**where) as client:
            written(client, resolved(client, "tokenizers", name), to)
        if output == JSON:
            print_json({"file": str(to), "bytes": to.stat().st_size})
        else:
            click.echo(to)

    @group.command("compare", short_help="Compare the bytes per token of tokenizers.")
    @click.argument("name", default="")
    @click.argument("texts", nargs=-1, type=click.Path(path_type=Path, exists=True))
    @click.option(
        "--with", "others", type=click.Path(path_type=Path, exists=True, dir_okay=False), multiple=True,
        help="A tokenizer.json to compare with; repeatable. Installed tokenizers are always compared.",
    )  # fmt: skip
    @click.option("--dataset", default="", help="Dataset on whose texts to compare, by language: datasets/… or runs/….")
    @output_option
    @connection_options
    def compare(
        name: str, texts: tuple[Path, ...], others: tuple[Path, ...], dataset: str, output: str, **where: Any
    ) -> None:
        """Compare the bytes per token of a tokenizer with others on the same texts: more bytes per token mean fewer
        tokens.

        \b
        tutti tokenizers compare tokenizers/ID
        tutti tokenizers compare --dataset runs/0f5c2d3e4a5b-1   # the run's tokenizer, by language and for code
        tutti tokenizers compare tokenizers/ID --dataset datasets/ID more.txt --with other/tokenizer.json

        Each of TEXTS is one sample: a file, or all UTF-8 files of a folder, of which the first 8 MiB are used. Without
        TEXTS the sample is code: the standard library of this Python.

        With --dataset each detected language is also a sample, of which 1 MiB is used. The same dataset gives the same
        samples. Without TEXTS, NAME can be omitted: the default is the tokenizer of the dataset.

        The others are the tokenizers in the Hugging Face cache and, if tiktoken is installed, in its cache; nothing is
        downloaded. A tokenizer with a token for unknown words looks better than it is.
        """
        with tempfile.TemporaryDirectory(prefix="tutti-tokenizer-") as scratch:
            with connected(**where) as client:
                found = get_one(client, "datasets", resolved(client, "datasets", dataset)) if dataset else None
                name = found.tokenizer if found and not name else resolved(client, "tokenizers", name)
                ours = written(client, name, Path(scratch, FILE))
                languages = spoken(client, found) if found else None
            compared = {name: opened(ours), **dict(references(os.environ, say))}
            compared |= {str(path): opened(path) for path in others}
            groups = [*languages.enough, *samples(texts, LANGUAGE_BYTES)] if languages else samples(texts)
            size = sum(each.bytes for each in groups)
            with patiently(f"counts the tokens of {size:,} bytes, once for each of {len(compared)} tokenizers"):
                rows = measured(compared, groups)
        if languages:
            say_little(languages)
        if len(compared) == 1:
            say(f"this machine has no other tokenizer; name one: --with path/to/{FILE}, or put one where it is found:")
            say(f"hf download openai-community/gpt2 {FILE}")
        if languages and output != JSON:
            print_list(*beside(rows, compared), output, nothing="", heads=heads(compared))
        else:
            print_list(rows, COLUMNS, output, nothing="")


def say_little(found: Spoken) -> None:
    """Print which languages of a dataset are left out, and what is unknown about the others."""
    if found.few:
        which = ", ".join(f"{each.name} ({each.bytes:,})" for each in found.few)
        say(f"left out, with under {LEAST_BYTES:,} bytes of text: {which}")
    if not found.told:
        say(f"nobody knows any more which languages its documents are in: all are {UNDETERMINED}")
    if found.partly:
        say("its documents are many, and some were looked at: a rare language has little text here, or none")


def written(client: Client, name: str, to: Path) -> Path:
    """Write a tokenizer of the platform into a new file. Raises NotFound, Failure."""
    from tutti.corpus.tokens.tokenizer import BytePairTokenizer, TokenizerError

    found = client.tokenization.GetTokenizer(GetRequest(name=name))
    if to.exists():
        raise Failure(f"{to} exists; name a new file with --to")
    if not to.parent.is_dir():
        raise Failure(f"there is no folder {to.parent}; make it, or name another file with --to")
    artefact = bytearray()
    while data := client.tokenization.ReadTokenizer(ReadTokenizerRequest(name=name, offset=len(artefact))).data:
        artefact += data
    try:
        tokenizer = BytePairTokenizer(bytes(artefact))
        seen, file = tokenizer.version, tokenizer.file
    except TokenizerError as error:
        raise Failure(f"{name} came damaged: {error}; run the recipe again that trained it") from error
    if seen != found.content_digest:
        raise Failure(f"{name} came as {seen}, expected {found.content_digest}; run the recipe again that trained it")
    with written_to(to, "--to"):
        to.write_bytes(file)
    return to


def beside(rows: Sequence[Plain], tokenizers: Mapping[str, Reference]) -> tuple[list[Plain], list[str]]:
    """A row for each group with the bytes a token of all tokenizers, and its columns."""
    count = len(tokenizers)
    found = [
        {key: rows[first][key] for key in ("sample", "documents", "bytes")}
        | {f"tokenizer {at}": rows[first + at]["bytes_a_token"] for at in range(count)}
        for first in range(0, len(rows), count)
    ]
    return found, ["sample", "documents", "bytes", *(f"tokenizer {at}" for at in range(count))]


def heads(tokenizers: Mapping[str, Reference]) -> dict[str, str]:
    """The column titles of tokenizers: name and vocabulary."""
    return {
        f"tokenizer {at}": f"{named(name)} ({each.vocabulary:,})" for at, (name, each) in enumerate(tokenizers.items())
    }


def named(name: str) -> str:
    """As short as it is still known by: an id by its first digits."""
    kind, _, digits = name.partition("/")
    return f"{kind}/{digits[:12]}" if kind == "tokenizers" else name
