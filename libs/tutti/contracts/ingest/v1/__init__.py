"""Messages of tutti.ingest.v1; generated, do not edit."""

from tutti.contracts.ingest.v1.events_pb2 import Filter, FilterSpec, Ingest, IngestSpec, RuleCount, Threshold
from tutti.contracts.ingest.v1.ingest_pb2 import CreateFilterRequest, CreateFilterResponse, CreateIngestRequest, CreateIngestResponse, DigestInputRequest, DigestInputResponse, ListFiltersResponse, ListIngestsResponse

__all__ = ['CreateFilterRequest', 'CreateFilterResponse', 'CreateIngestRequest', 'CreateIngestResponse', 'DigestInputRequest', 'DigestInputResponse', 'Filter', 'FilterSpec', 'Ingest', 'IngestSpec', 'ListFiltersResponse', 'ListIngestsResponse', 'RuleCount', 'Threshold']
