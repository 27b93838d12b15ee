"""The calls that tokenization answers."""

from tutti.chassis import crud
from tutti.chassis.call import Call
from tutti.chassis.errors import InvalidField
from tutti.chassis.required import required
from tutti.chassis.resources import Resource
from tutti.chassis.service import Host
from tutti.chassis.work import Work
from tutti.contracts.common.v1 import CancelRequest, GetRequest, ListRequest
from tutti.contracts.tokenization.v1 import (
    CreateIndexRequest,
    CreateIndexResponse,
    CreateTokenizationRequest,
    CreateTokenizationResponse,
    Dataset,
    Index,
    ListDatasetsResponse,
    ListIndexesResponse,
    ListTokenizationsResponse,
    ListTokenizersResponse,
    Tokenization,
    TokenizationSpec,
    Tokenizer,
)
from tutti.tokenization.bpe import BYTES, PatternError, compiled


def check(spec: TokenizationSpec) -> None:
    """Raises InvalidField naming what cannot work."""
    if spec.vocabulary <= BYTES:
        raise InvalidField(
            "spec.vocabulary", seen=spec.vocabulary, expected=f"more than {BYTES}: every byte, and one end"
        )
    if spec.context < 1:
        raise InvalidField("spec.context", seen=spec.context, expected="at least 1 token")
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

    def CreateTokenization(self, request: CreateTokenizationRequest, call: Call) -> CreateTokenizationResponse:
        required(request, "spec.manifest_key", "spec.content_digest")
        check(request.spec)
        return CreateTokenizationResponse(tokenization=self._work.create(request))

    def GetTokenization(self, request: GetRequest, call: Call) -> Tokenization:
        return self._work.get(request)

    def ListTokenizations(self, request: ListRequest, call: Call) -> ListTokenizationsResponse:
        return self._work.page(request, ListTokenizationsResponse)

    def CancelTokenization(self, request: CancelRequest, call: Call) -> Tokenization:
        return self._work.cancel(request)

    def CreateIndex(self, request: CreateIndexRequest, call: Call) -> CreateIndexResponse:
        required(request, "spec.manifest_key", "spec.content_digest")
        return CreateIndexResponse(index=self._indexes.create(request))

    def GetIndex(self, request: GetRequest, call: Call) -> Index:
        return self._indexes.get(request)

    def ListIndexes(self, request: ListRequest, call: Call) -> ListIndexesResponse:
        return self._indexes.page(request, ListIndexesResponse)

    def CancelIndex(self, request: CancelRequest, call: Call) -> Index:
        return self._indexes.cancel(request)

    def GetDataset(self, request: GetRequest, call: Call) -> Dataset:
        return crud.get(self._host.units, self._datasets, request)

    def ListDatasets(self, request: ListRequest, call: Call) -> ListDatasetsResponse:
        return crud.list_page(self._host.units, self._datasets, request, ListDatasetsResponse, "datasets")

    def GetTokenizer(self, request: GetRequest, call: Call) -> Tokenizer:
        return crud.get(self._host.units, self._tokenizers, request)

    def ListTokenizers(self, request: ListRequest, call: Call) -> ListTokenizersResponse:
        return crud.list_page(self._host.units, self._tokenizers, request, ListTokenizersResponse, "tokenizers")
