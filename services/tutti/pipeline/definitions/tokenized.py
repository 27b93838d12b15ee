"""Data about datasets from tokenization: their rows, the documents in them, the number of tokens of a text.

Promises: nothing is kept here; a row or a tokenizer that is not there is no error of these questions.
"""

from collections.abc import Iterator, Sequence

from tutti.backbone.blobs import BlobMissing
from tutti.chassis.errors import NotFound
from tutti.chassis.rpc.kinds import kind_of
from tutti.chassis.service import Host
from tutti.contracts.common.v1 import STATE_DONE
from tutti.contracts.tokenization.v1 import Dataset, Tokenization
from tutti.corpus.tokens.tokenizer import BytePairTokenizer, TokenizerError, least_tokens
from tutti.pipeline.definitions import evidence
from tutti.pipeline.definitions.definition import StageDef
from tutti.pipeline.recipes.sections import DedupSection
from tutti.pipeline.recipes.values import Result
from tutti.pipeline.recipes.view import View

UNKNOWN = ""
"""The tokenizer of a recipe that trains one."""


def dataset_row(host: Host, dataset: Result) -> Dataset | None:
    """The row of a dataset; None where there is none."""
    name = f"datasets/{dataset.content_digest.removeprefix('blake3:')}"
    try:
        found: Dataset = kind_of(Dataset).get(host.channel("tokenization"), name)
    except NotFound:
        return None
    return found


def lengths(host: Host, texts: Sequence[str], tokenizer: str) -> Iterator[int]:
    """The number of tokens of each text, a lower bound for an UNKNOWN tokenizer; empty if the tokenizer does not
    exist.
    """
    if tokenizer == UNKNOWN:
        yield from map(least_tokens, texts)
        return
    try:
        artefact = host.blobs.get(f"tokenization/{tokenizer}.json")
        found = BytePairTokenizer.load(artefact, expected_version=tokenizer.replace("tokenizers/", "blake3:"))
        yield from map(len, found.encode_all(list(texts)))
    except (BlobMissing, TokenizerError):
        return


def documents_of(host: Host, dedup: StageDef, view: View) -> tuple[Result, ...]:
    """The documents of the earlier datasets `against`, by name: the dedup that each was made of. Raises InvalidField.

    Of several dedups that gave the same dataset it is the first whose blobs are there, or else the first.
    """
    wanted = sorted(set(view.section(DedupSection).against))
    made: dict[str, dict[str, Result]] = {}
    for page in kind_of(Tokenization).pages(host.channel("tokenization")):
        for each in page:
            if each.state == STATE_DONE and each.dataset in wanted:
                result = Result(each.dataset, each.spec.manifest_key, each.spec.content_digest)
                made.setdefault(each.dataset, {}).setdefault(result.manifest_key, result)
    if lacking := [name for name in wanted if name not in made]:
        expected = "a dataset that was made here; see `tutti datasets ls`"
        raise view.refused("against", seen=lacking[0], expected=expected)
    return tuple(_there(host, dedup, list(made[name].values())) for name in wanted)


def _there(host: Host, dedup: StageDef, several: list[Result]) -> Result:
    if len(several) == 1:
        return several[0]
    there = (each for each in several if not evidence.missing(host.blobs, dedup, each))
    return next(there, several[0])
