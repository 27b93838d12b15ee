"""Client stubs of tutti.access.v1; generated, do not edit."""

from tutti.contracts.access.v1.access_pb2_grpc import AccessServiceStub

__all__ = ['AccessServiceStub']
