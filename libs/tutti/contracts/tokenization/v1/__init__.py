"""Messages of tutti.tokenization.v1; generated, do not edit."""

from tutti.contracts.tokenization.v1.events_pb2 import Dataset, Index, IndexSpec, Tokenization, TokenizationSpec, Tokenizer
from tutti.contracts.tokenization.v1.tokenization_pb2 import CreateIndexRequest, CreateIndexResponse, CreateTokenizationRequest, CreateTokenizationResponse, ListDatasetsResponse, ListIndexesResponse, ListTokenizationsResponse, ListTokenizersResponse

__all__ = ['CreateIndexRequest', 'CreateIndexResponse', 'CreateTokenizationRequest', 'CreateTokenizationResponse', 'Dataset', 'Index', 'IndexSpec', 'ListDatasetsResponse', 'ListIndexesResponse', 'ListTokenizationsResponse', 'ListTokenizersResponse', 'Tokenization', 'TokenizationSpec', 'Tokenizer']
