"""Client stubs of tutti.lineage.v1; generated, do not edit."""

from tutti.contracts.lineage.v1.lineage_pb2_grpc import LineageServiceStub

__all__ = ['LineageServiceStub']
