"""Tokenizers: written as the file that other programs read, and compared with others on the same texts."""

from __future__ import annotations

import codecs
import os
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tutti.chassis.client import Client
from tutti.cli.access import served
from tutti.cli.connection import connection_options
from tutti.cli.failures import Failure
from tutti.cli.nouns import full_name
from tutti.cli.output import JSON, output_option, print_json, print_list, say
from tutti.cli.plain import Plain
from tutti.cli.targets import written_to
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.tokenization.v1 import ReadTokenizerRequest

if TYPE_CHECKING:  # no other command waits for it
    from tokenizers import Tokenizer

FILE = "tokenizer.json"
SAMPLE_BYTES = 8 << 20
"""Of the texts of a sample so many are read, in the order of their names."""
CODE = "Python code"


def extend(group: click.Group) -> None:
    """Give the group `tokenizers` its verbs."""

    @group.command("export", short_help="Write one as a tokenizer.json.")
    @click.argument("name")
    @click.option("--to", type=click.Path(path_type=Path), default=Path(FILE), show_default=True, help="A new file.")
    @output_option
    @connection_options
    def export(name: str, to: Path, output: str, **where: Any) -> None:
        """Write a tokenizer as the tokenizer.json that `tokenizers` and `transformers` read."""
        with served(**where) as client:
            written(client, full_name("tokenizers", name), to)
        if output == JSON:
            print_json({"file": str(to), "bytes": to.stat().st_size})
        else:
            click.echo(to)

    @group.command("compare", short_help="Count the bytes a token beside others.")
    @click.argument("name")
    @click.argument("texts", nargs=-1, type=click.Path(path_type=Path, exists=True))
    @click.option(
        "--with", "others", type=click.Path(path_type=Path, exists=True, dir_okay=False), multiple=True,
        help="A tokenizer.json to compare with; again for more. Those in Hugging Face's cache are compared anyway.",
    )  # fmt: skip
    @output_option
    @connection_options
    def compare(name: str, texts: tuple[Path, ...], others: tuple[Path, ...], output: str, **where: Any) -> None:
        """Count the bytes a token of a tokenizer beside others, on the same texts: more are fewer tokens.

        Each of TEXTS is a sample of its own: a file, or a folder with all files in it that are UTF-8, of which the
        first 8 MiB count. Without TEXTS the sample is code: the standard library of this Python.
        """
        name = full_name("tokenizers", name)
        with tempfile.TemporaryDirectory(prefix="tutti-tokenizer-") as scratch:
            with served(**where) as client:
                ours = written(client, name, Path(scratch, FILE))
            compared = {name: ours, **installed(os.environ), **{str(path): path for path in others}}
            rows = measured(compared, samples(texts))
        if len(compared) == 1:
            say(f"this machine has no other tokenizer; name one: --with path/to/{FILE}")
        print_list(rows, ("sample", "bytes", "tokenizer", "vocabulary", "tokens", "bytes_a_token"), output, nothing="")


def written(client: Client, name: str, to: Path) -> Path:
    """Write a tokenizer of the platform into a new file. Raises NotFound, Failure."""
    from tutti.corpus.tokenizer import BytePairTokenizer, TokenizerError

    found = client.tokenization.GetTokenizer(GetRequest(name=name))
    if to.exists():
        raise Failure(f"{to} exists; name a new file with --to")
    if not to.parent.is_dir():
        raise Failure(f"there is no folder {to.parent}; make it, or name another file with --to")
    artefact = bytearray()
    while data := client.tokenization.ReadTokenizer(ReadTokenizerRequest(name=name, offset=len(artefact))).data:
        artefact += data
    try:
        seen = BytePairTokenizer(bytes(artefact)).version
    except TokenizerError as error:
        raise Failure(f"{name} came damaged: {error}; run the recipe again that trained it") from error
    if seen != found.content_digest:
        raise Failure(f"{name} came as {seen}, expected {found.content_digest}; run the recipe again that trained it")
    with written_to(to, "--to"):
        to.write_bytes(artefact)
    return to


def installed(environment: Mapping[str, str]) -> dict[str, Path]:
    """The tokenizers of models in the cache of Hugging Face, by the names of the models."""
    home = environment.get("HF_HOME") or Path.home() / ".cache" / "huggingface"
    hub = Path(environment.get("HF_HUB_CACHE") or Path(home, "hub"))
    found = sorted(hub.glob(f"models--*/snapshots/*/{FILE}"))
    return {path.parts[-4].removeprefix("models--").replace("--", "/"): path for path in found}


def samples(places: Sequence[Path]) -> dict[str, list[str]]:
    """Texts by the name of their sample. Raises Failure for a sample without text."""
    wanted = {str(place): place for place in places} or {CODE: Path(sysconfig.get_paths()["stdlib"])}
    found = {name: list(_texts(place, "*.py" if name == CODE else "*")) for name, place in wanted.items()}
    for name, texts in found.items():
        if not texts:
            raise Failure(f"{name} has no text in UTF-8; name files or folders that do")
    return found


def _texts(place: Path, pattern: str) -> Iterator[str]:
    left = SAMPLE_BYTES
    for path in sorted(place.rglob(pattern)) if place.is_dir() else [place]:
        if left <= 0:
            return
        if path.is_file():
            with path.open("rb") as file:
                data = file.read(left)
            try:
                text = codecs.getincrementaldecoder("utf-8")().decode(data, final=len(data) < left)
            except UnicodeDecodeError:
                continue
            if text:
                left -= len(data)
                yield text


def measured(tokenizers: Mapping[str, Path], texts: Mapping[str, Sequence[str]]) -> list[Plain]:
    """A row for each sample and tokenizer. Raises Failure for a file that is no tokenizer."""
    opened = {name: _opened(path) for name, path in tokenizers.items()}
    rows = []
    for sample, some in texts.items():
        size = sum(len(text.encode()) for text in some)
        for name, tokenizer in opened.items():
            tokens = sum(map(len, tokenizer.encode_batch_fast(list(some), add_special_tokens=False)))
            rows.append(
                {
                    "sample": sample,
                    "bytes": size,
                    "tokenizer": name,
                    "vocabulary": tokenizer.get_vocab_size(),
                    "tokens": tokens,
                    "bytes_a_token": round(size / max(tokens, 1), 3),
                }
            )
    return rows


def _opened(path: Path) -> Tokenizer:
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise Failure(f"{path} is no tokenizer.json: {error}") from error
