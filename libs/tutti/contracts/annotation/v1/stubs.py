"""Client stubs of tutti.annotation.v1; generated, do not edit."""

from tutti.contracts.annotation.v1.annotation_pb2_grpc import AnnotationServiceStub

__all__ = ['AnnotationServiceStub']
