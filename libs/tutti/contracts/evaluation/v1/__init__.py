"""Messages of tutti.evaluation.v1; generated, do not edit."""

from tutti.contracts.evaluation.v1.comparison_pb2 import ComparedReward, ComparedSample, Comparison, ComparisonSpec, CreateComparisonRequest, CreateComparisonResponse, JudgedSet, ListComparisonsResponse, WinRate
from tutti.contracts.evaluation.v1.release_pb2 import CreateReleaseRequest, CreateReleaseResponse, Evidence, GetSigningKeyRequest, ListReleasesResponse, Release, ReleaseFinding, ReleaseRevoked, ReleaseSpec, ReleasedComparison, RevokeReleaseRequest, STANDING_ACTIVE, STANDING_REFUSED, STANDING_REVOKED, STANDING_STALE, STANDING_UNSPECIFIED, SigningKey, Standing

__all__ = ['ComparedReward', 'ComparedSample', 'Comparison', 'ComparisonSpec', 'CreateComparisonRequest', 'CreateComparisonResponse', 'CreateReleaseRequest', 'CreateReleaseResponse', 'Evidence', 'GetSigningKeyRequest', 'JudgedSet', 'ListComparisonsResponse', 'ListReleasesResponse', 'Release', 'ReleaseFinding', 'ReleaseRevoked', 'ReleaseSpec', 'ReleasedComparison', 'RevokeReleaseRequest', 'STANDING_ACTIVE', 'STANDING_REFUSED', 'STANDING_REVOKED', 'STANDING_STALE', 'STANDING_UNSPECIFIED', 'SigningKey', 'Standing', 'WinRate']
