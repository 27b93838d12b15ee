"""Client stubs of tutti.committer.v1; generated, do not edit."""

from tutti.contracts.committer.v1.committer_pb2_grpc import CommitterServiceStub

__all__ = ['CommitterServiceStub']
