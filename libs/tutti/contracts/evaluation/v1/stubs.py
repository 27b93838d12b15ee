"""Client stubs of tutti.evaluation.v1; generated, do not edit."""

from tutti.contracts.evaluation.v1.comparison_pb2_grpc import ComparisonServiceStub
from tutti.contracts.evaluation.v1.release_pb2_grpc import ReleaseServiceStub

__all__ = ['ComparisonServiceStub', 'ReleaseServiceStub']
