"""Limits of what comes after a training: prompts fit its model's context, an index holds its dataset.

Promises: what is refused could not be done, and that is said before the training; it is named by the recipe's key.
"""

from collections.abc import Iterator

from tutti.backbone.blobs import BlobMissing
from tutti.chassis.errors import InvalidField, NotFound
from tutti.chassis.service import Host
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.tokenization.v1.stubs import TokenizationServiceStub
from tutti.corpus.spans.building import MOST_TOKENS
from tutti.corpus.tokenizer import BytePairTokenizer, TokenizerError, least_tokens
from tutti.pipeline.recipe import Recipe
from tutti.pipeline.stages import Result

UNKNOWN = ""
"""The tokenizer of a recipe that trains one."""


class Limits:
    def __init__(self, host: Host) -> None:
        self._blobs = host.blobs
        self._tokenization = TokenizationServiceStub(host.channel("tokenization"))

    def foreseen(self, recipe: Recipe) -> None:
        """What the recipe alone lets one see. Raises InvalidField."""
        of = recipe.tokenizer.of if recipe.tokenizer.of.startswith("tokenizers/") else UNKNOWN
        if of or not (recipe.tokenizer.of or recipe.tokenizer.pattern):
            self._prompts(recipe, of)

    def judge(self, recipe: Recipe, dataset: Result) -> None:
        """What its dataset lets one see too. Raises InvalidField."""
        if recipe.sample is None and not recipe.index:
            return
        name = f"datasets/{dataset.content_digest.removeprefix('blake3:')}"
        try:
            found = self._tokenization.GetDataset(GetRequest(name=name))
        except NotFound:
            return
        if recipe.index and found.tokens >= MOST_TOKENS:
            raise InvalidField(
                "index",
                seen=f"true, of {found.tokens:,} tokens to train on",
                expected=f"false, or a dataset of fewer than {MOST_TOKENS:,} tokens: no index of more can be made",
            )
        self._prompts(recipe, found.tokenizer)

    def _prompts(self, recipe: Recipe, tokenizer: str) -> None:
        if recipe.sample is None:
            return
        context = recipe.data.context
        for number, tokens in enumerate(self._tokens(recipe.sample.prompts, tokenizer)):
            if tokens >= context:
                raise InvalidField(
                    "sample.prompts",
                    seen=f"prompt {number} of {'' if tokenizer else 'at least '}{tokens:,} tokens",
                    expected=f"at most {context - 1:,} tokens, since data.context ({context:,}) must have room for one "
                    f"more; shorten it by at least {tokens - context + 1:,}",
                )

    def _tokens(self, prompts: list[str], name: str) -> Iterator[int]:
        """How many each has at least; nothing where the tokenizer is not to be had, which is for others to say."""
        if name == UNKNOWN:
            yield from map(least_tokens, prompts)
            return
        try:
            artefact = self._blobs.get(f"tokenization/{name}.json")
            tokenizer = BytePairTokenizer.load(artefact, expected_version=name.replace("tokenizers/", "blake3:"))
            yield from map(len, tokenizer.encode_all(prompts))
        except (BlobMissing, TokenizerError):
            return
