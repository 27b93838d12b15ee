"""Messages of tutti.tokenization.v1; generated, do not edit."""

from tutti.contracts.tokenization.v1.events_pb2 import Dataset, Index, IndexSpec, Tokenization, TokenizationSpec, TokenizedLanguage, Tokenizer
from tutti.contracts.tokenization.v1.tokenization_pb2 import CreateIndexRequest, CreateIndexResponse, CreateTokenizationRequest, CreateTokenizationResponse, DatasetFile, ListDatasetFilesRequest, ListDatasetFilesResponse, ListDatasetsResponse, ListIndexesResponse, ListTokenizationsResponse, ListTokenizersResponse, ReadDatasetFileRequest, ReadDatasetFileResponse, ReadTokenizerRequest, ReadTokenizerResponse

__all__ = ['CreateIndexRequest', 'CreateIndexResponse', 'CreateTokenizationRequest', 'CreateTokenizationResponse', 'Dataset', 'DatasetFile', 'Index', 'IndexSpec', 'ListDatasetFilesRequest', 'ListDatasetFilesResponse', 'ListDatasetsResponse', 'ListIndexesResponse', 'ListTokenizationsResponse', 'ListTokenizersResponse', 'ReadDatasetFileRequest', 'ReadDatasetFileResponse', 'ReadTokenizerRequest', 'ReadTokenizerResponse', 'Tokenization', 'TokenizationSpec', 'TokenizedLanguage', 'Tokenizer']
