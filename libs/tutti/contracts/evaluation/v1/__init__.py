"""Messages of tutti.evaluation.v1; generated, do not edit."""

from tutti.contracts.evaluation.v1.comparison_pb2 import ComparedSample, Comparison, ComparisonSpec, CreateComparisonRequest, CreateComparisonResponse, ListComparisonsResponse, WinRate

__all__ = ['ComparedSample', 'Comparison', 'ComparisonSpec', 'CreateComparisonRequest', 'CreateComparisonResponse', 'ListComparisonsResponse', 'WinRate']
