"""Client stubs of tutti.dedup.v1; generated, do not edit."""

from tutti.contracts.dedup.v1.dedup_pb2_grpc import DedupServiceStub

__all__ = ['DedupServiceStub']
