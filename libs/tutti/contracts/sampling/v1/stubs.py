"""Client stubs of tutti.sampling.v1; generated, do not edit."""

from tutti.contracts.sampling.v1.experience_pb2_grpc import ExperienceServiceStub
from tutti.contracts.sampling.v1.sampling_pb2_grpc import SamplingServiceStub

__all__ = ['ExperienceServiceStub', 'SamplingServiceStub']
