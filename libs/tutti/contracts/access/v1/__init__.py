"""Messages of tutti.access.v1; generated, do not edit."""

from tutti.contracts.access.v1.access_pb2 import AuthenticateRequest, AuthenticateResponse, CloseSessionRequest, CloseSessionResponse, CreateUserRequest, CreateUserResponse, DisableUserRequest, IssueLinkRequest, IssueLinkResponse, ListUsersResponse, OpenSessionRequest, OpenSessionResponse, Principal, RecordRefusalRequest, RecordRefusalResponse, Visitor
from tutti.contracts.access.v1.events_pb2 import USER_STATE_ACTIVE, USER_STATE_DISABLED, USER_STATE_INVITED, USER_STATE_UNSPECIFIED, User, UserState

__all__ = ['AuthenticateRequest', 'AuthenticateResponse', 'CloseSessionRequest', 'CloseSessionResponse', 'CreateUserRequest', 'CreateUserResponse', 'DisableUserRequest', 'IssueLinkRequest', 'IssueLinkResponse', 'ListUsersResponse', 'OpenSessionRequest', 'OpenSessionResponse', 'Principal', 'RecordRefusalRequest', 'RecordRefusalResponse', 'USER_STATE_ACTIVE', 'USER_STATE_DISABLED', 'USER_STATE_INVITED', 'USER_STATE_UNSPECIFIED', 'User', 'UserState', 'Visitor']
