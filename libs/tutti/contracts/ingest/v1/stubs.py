"""Client stubs of tutti.ingest.v1; generated, do not edit."""

from tutti.contracts.ingest.v1.conversations_pb2_grpc import ConversationsServiceStub
from tutti.contracts.ingest.v1.ingest_pb2_grpc import IngestServiceStub

__all__ = ['ConversationsServiceStub', 'IngestServiceStub']
