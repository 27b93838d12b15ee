"""Client stubs of tutti.scheduler.v1; generated, do not edit."""

from tutti.contracts.scheduler.v1.scheduler_pb2_grpc import SchedulerServiceStub

__all__ = ['SchedulerServiceStub']
