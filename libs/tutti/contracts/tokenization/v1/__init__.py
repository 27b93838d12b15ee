"""Messages of tutti.tokenization.v1; generated, do not edit."""

from tutti.contracts.tokenization.v1.events_pb2 import Dataset, Tokenization, TokenizationSpec, Tokenizer
from tutti.contracts.tokenization.v1.tokenization_pb2 import CreateTokenizationRequest, CreateTokenizationResponse, ListDatasetsResponse, ListTokenizationsResponse, ListTokenizersResponse

__all__ = ['CreateTokenizationRequest', 'CreateTokenizationResponse', 'Dataset', 'ListDatasetsResponse', 'ListTokenizationsResponse', 'ListTokenizersResponse', 'Tokenization', 'TokenizationSpec', 'Tokenizer']
