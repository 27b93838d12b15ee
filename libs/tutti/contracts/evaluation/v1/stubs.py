"""Client stubs of tutti.evaluation.v1; generated, do not edit."""

from tutti.contracts.evaluation.v1.comparison_pb2_grpc import ComparisonServiceStub

__all__ = ['ComparisonServiceStub']
