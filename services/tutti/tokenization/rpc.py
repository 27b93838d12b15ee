"""The calls that tokenization answers."""

from tutti.chassis.errors import InvalidField
from tutti.chassis.rpc.call import Call
from tutti.chassis.rpc.required import required
from tutti.chassis.service import Host
from tutti.chassis.store import crud
from tutti.chassis.store.resources import Resource, check_name
from tutti.chassis.work.work import Work
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.tokenization.v1 import (
    CreateIndexRequest,
    CreateIndexResponse,
    CreateTokenizationRequest,
    CreateTokenizationResponse,
    Dataset,
    Index,
    ListDatasetFilesRequest,
    ListDatasetFilesResponse,
    ReadDatasetFileRequest,
    ReadDatasetFileResponse,
    ReadTokenizerRequest,
    ReadTokenizerResponse,
    Tokenization,
    TokenizationSpec,
    Tokenizer,
)
from tutti.corpus.tokens.dataset import Packing
from tutti.corpus.tokens.tokenizer import TokenizerError
from tutti.tokenization.bpe import BYTES, PatternError, compiled, special_tokens
from tutti.tokenization.sources import Sources
from tutti.tokenization.tokenizers import came_in


def check(spec: TokenizationSpec) -> None:
    """Raises InvalidField naming what cannot work."""
    if spec.vocabulary <= BYTES + len(spec.reserved) and not spec.tokenizer:
        more = ", reserved tokens," if spec.reserved else ","
        raise InvalidField(
            "spec.vocabulary",
            seen=spec.vocabulary,
            expected=f"more than {BYTES + len(spec.reserved)}: every byte{more} and one end",
        )
    try:
        special_tokens(spec.reserved)
    except TokenizerError as error:
        raise InvalidField("spec.reserved", seen=list(spec.reserved), expected=str(error)) from error
    if spec.reserved and spec.tokenizer:
        raise InvalidField("spec.reserved", seen=list(spec.reserved), expected="nothing beside spec.tokenizer")
    if spec.context < 1:
        raise InvalidField("spec.context", seen=spec.context, expected="at least 1 token")
    if spec.packing not in ("", *Packing):
        raise InvalidField("spec.packing", seen=spec.packing, expected=" or ".join(Packing))
    if not 0 < spec.validation_fraction < 1:
        raise InvalidField(
            "spec.validation_fraction", seen=spec.validation_fraction, expected="a number between 0 and 1"
        )
    try:
        compiled(spec.pattern)
    except PatternError as error:
        raise InvalidField(
            "spec.pattern", seen=spec.pattern, expected=f"a regular expression that compiles ({error.__cause__})"
        ) from error


class TokenizationApi:
    def __init__(
        self,
        host: Host,
        work: Work[Tokenization],
        indexes: Work[Index],
        datasets: Resource[Dataset],
        tokenizers: Resource[Tokenizer],
    ) -> None:
        self._host, self._work, self._indexes = host, work, indexes
        self._datasets, self._tokenizers = datasets, tokenizers
        self._sources = Sources(host, work, datasets)

    def CreateTokenization(self, request: CreateTokenizationRequest, call: Call) -> CreateTokenizationResponse:
        required(request, "spec.manifest_key", "spec.content_digest")
        check(request.spec)
        made = self._work.create(request, check=lambda: self._check_known(request.spec.tokenizer))
        return CreateTokenizationResponse(tokenization=made)

    def _check_known(self, name: str) -> None:
        """Raises InvalidField for a tokenizer that was neither trained nor imported here; "" is none."""
        if not name:
            return
        check_name("tokenizers", name, field="spec.tokenizer")
        known = self._host.units.run(lambda unit: self._tokenizers.find(unit, name)) is not None
        if not known and not came_in(self._host.blobs, name):
            expected = "a tokenizer that was trained here, or that came with an import"
            raise InvalidField("spec.tokenizer", seen=name, expected=expected)

    def CreateIndex(self, request: CreateIndexRequest, call: Call) -> CreateIndexResponse:
        required(request, "spec.manifest_key", "spec.content_digest")
        return CreateIndexResponse(index=self._indexes.create(request))

    def ListDatasetFiles(self, request: ListDatasetFilesRequest, call: Call) -> ListDatasetFilesResponse:
        return self._sources.files(request.name)

    def ReadDatasetFile(self, request: ReadDatasetFileRequest, call: Call) -> ReadDatasetFileResponse:
        return ReadDatasetFileResponse(data=self._sources.read(request.name, request.file, request.offset))

    def ReadTokenizer(self, request: ReadTokenizerRequest, call: Call) -> ReadTokenizerResponse:
        found = crud.get(self._host.units, self._tokenizers, GetRequest(name=request.name), call.principal)
        return ReadTokenizerResponse(data=self._sources.read_tokenizer(found, request.offset))
