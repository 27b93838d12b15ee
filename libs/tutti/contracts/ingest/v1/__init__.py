"""Messages of tutti.ingest.v1; generated, do not edit."""

from tutti.contracts.ingest.v1.events_pb2 import Ingest, IngestSpec
from tutti.contracts.ingest.v1.ingest_pb2 import CreateIngestRequest, CreateIngestResponse, DigestInputRequest, DigestInputResponse, ListIngestsResponse

__all__ = ['CreateIngestRequest', 'CreateIngestResponse', 'DigestInputRequest', 'DigestInputResponse', 'Ingest', 'IngestSpec', 'ListIngestsResponse']
