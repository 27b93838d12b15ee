"""Client stubs of tutti.tokenization.v1; generated, do not edit."""

from tutti.contracts.tokenization.v1.tokenization_pb2_grpc import TokenizationServiceStub

__all__ = ['TokenizationServiceStub']
