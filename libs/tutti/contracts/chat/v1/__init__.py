"""Messages of tutti.chat.v1; generated, do not edit."""

from tutti.contracts.chat.v1.replica_pb2 import AdmitRequest, AdmitResponse, Alternative, Bias, CancelRequest, CancelResponse, End, FollowRequest, FollowResponse, Limits, Opened, STOP_REASON_CANCELLED, STOP_REASON_CONTEXT, STOP_REASON_END, STOP_REASON_FAILED, STOP_REASON_TOKENS, STOP_REASON_UNSPECIFIED, Sampling, Shaping, StopReason, Token

__all__ = ['AdmitRequest', 'AdmitResponse', 'Alternative', 'Bias', 'CancelRequest', 'CancelResponse', 'End', 'FollowRequest', 'FollowResponse', 'Limits', 'Opened', 'STOP_REASON_CANCELLED', 'STOP_REASON_CONTEXT', 'STOP_REASON_END', 'STOP_REASON_FAILED', 'STOP_REASON_TOKENS', 'STOP_REASON_UNSPECIFIED', 'Sampling', 'Shaping', 'StopReason', 'Token']
