"""Recipes to begin with: a text with every choice that a beginner makes, and what each means."""

import json
from pathlib import Path
from urllib.parse import urlsplit

import click

from tutti.cli.failures import MISUSE, Failure

FOLDER = """\
input:
  path: {path} # HTML, Markdown, text, JSON lines, Parquet, WARC
"""
SITE = """\
input:
  crawl:
    seeds: [{site}]
    contact: {contact} # how the visited site can reach you: a URL or an email address
    pages: 1000 # maximum number of pages to visit
    delay_seconds: 1 # minimum delay between two requests to a host
"""
REST = """\
quality:
  rules: [] # gopher_quality, gopher_repetition, c4, fineweb, no_pii, harm_lexicon; empty: keep all documents
  languages: [] # languages to keep, such as [en]; empty: all
  mask: [] # personal data to mask: email, phone, key, card, address
dedup:
  near: 0.8 # similarity threshold of near-duplicates; 0: remove only equal texts
size: small # size of the model: tiny, mini, small, medium or large; docs/recipes.md lists them
tokenizer:
  vocabulary: 4096 # number of tokens: 256 bytes, learned merges, end of text
data:
  context: 256 # tokens per sequence
train:
  steps: 400 # number of optimizer steps
  ranks: 2 # number of training processes; any number gives the same bits
  microbatches: 8 # microbatches per step, divided among the ranks
  rows: 2 # sequences per microbatch; 8 x 2 = 16 sequences per step
  checkpoint_every: 50 # steps between two checkpoints
index: true # build an index with which `tutti trace --text` finds texts in the training data
sample:
  prompts: [""] # texts to continue with the last checkpoint; an empty one starts a new text
  tokens: 64 # maximum number of tokens to generate for each prompt
"""


def recipe_for(data: Path | None, site: str, contact: str) -> str:
    """The text of a recipe over a folder or over a web site. Raises Failure where neither, or both, are given."""
    if data is not None and not site:
        return _over_folder(data)
    if site and data is None:
        return _over_site(site, contact)
    raise Failure("give --data FOLDER or --site URL, and one of them alone (or, to run it, a RECIPE)", MISUSE)


def _over_folder(data: Path) -> str:
    if not data.exists():
        raise Failure(f"--data {data}: expected a folder or a file; it does not exist", MISUSE)
    if data.is_file() and data.suffix in (".yaml", ".yml"):
        raise Failure(f"--data {data}: expected texts; to run a recipe, give it without --data", MISUSE)
    path = str(data.resolve())
    if not path.isprintable():
        raise Failure(f"--data {path!a}: expected a path that can be written in a text; rename the folder", MISUSE)
    return f"name: {_quoted(data.resolve().name[:100] or 'data')}\n{FOLDER.format(path=_quoted(path))}{REST}"


def _over_site(site: str, contact: str) -> str:
    host = urlsplit(site).hostname
    if not host:
        raise Failure(f"--site {site}: expected a URL, such as https://docs.example/", MISUSE)
    if not contact:
        raise Failure("give --contact too: a URL or an email address at which the visited site can reach you", MISUSE)
    return f"name: {_quoted(host[:100])}\n{SITE.format(site=_quoted(site), contact=_quoted(contact))}{REST}"


def _quoted(text: str) -> str:
    """As YAML, of which JSON is a part."""
    return json.dumps(text, ensure_ascii=False)


def source_options(command: click.decorators.FC) -> click.decorators.FC:
    """Options that name the source of texts, for commands that need no recipe."""
    for option in (
        click.option(
            "--contact", default="", help="With --site: a URL or an email address at which the site can reach you."
        ),
        click.option("--site", default="", metavar="URL", help="Crawl this web site."),
        click.option("--data", type=click.Path(path_type=Path), default=None, help="Read this folder or file."),
    ):
        command = option(command)
    return command


@click.group(short_help="Create, check and plan recipes.")
def recipes() -> None:
    """Recipes: files that describe runs. docs/recipes.md lists every key.

    \b
    tutti recipes new --data ./folder > mine.yaml
    tutti recipes check mine.yaml      # list its errors
    tutti recipes plan mine.yaml       # the stages to run, with time, disk and memory
    tutti run mine.yaml
    """


@recipes.command("new", short_help="Print a recipe to start from.")
@source_options
def new(data: Path | None, site: str, contact: str) -> None:
    """Print a recipe to start from, with a comment for every key.

    \b
    tutti recipes new --data ./folder > mine.yaml
    tutti recipes new --site https://docs.example/ --contact me@a.example > mine.yaml
    """
    click.echo(recipe_for(data, site, contact), nl=False)
