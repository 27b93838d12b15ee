"""Client stubs of tutti.admin.v1; generated, do not edit."""

from tutti.contracts.admin.v1.admin_pb2_grpc import AdminStub

__all__ = ['AdminStub']
