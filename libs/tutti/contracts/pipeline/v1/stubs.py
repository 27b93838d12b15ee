"""Client stubs of tutti.pipeline.v1; generated, do not edit."""

from tutti.contracts.pipeline.v1.pipeline_pb2_grpc import PipelineServiceStub

__all__ = ['PipelineServiceStub']
