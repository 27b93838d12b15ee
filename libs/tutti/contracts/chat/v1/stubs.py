"""Client stubs of tutti.chat.v1; generated, do not edit."""

from tutti.contracts.chat.v1.chat_pb2_grpc import ChatServiceStub
from tutti.contracts.chat.v1.replica_pb2_grpc import ReplicaServiceStub

__all__ = ['ChatServiceStub', 'ReplicaServiceStub']
