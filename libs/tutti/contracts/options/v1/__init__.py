"""Messages of tutti.options.v1; generated, do not edit."""

from tutti.contracts.options.v1.options_pb2 import Access, Event, KIND_FACT, KIND_STATE, KIND_UNSPECIFIED, Kind, Parent, ROLE_AGENT, ROLE_ANNOTATOR, ROLE_CLIENT, ROLE_ENGINEER, ROLE_JOINER, ROLE_OPERATOR, ROLE_SERVICE, ROLE_UNSPECIFIED, Refers, Resource, Role, access, event, refers, resource

__all__ = ['Access', 'Event', 'KIND_FACT', 'KIND_STATE', 'KIND_UNSPECIFIED', 'Kind', 'Parent', 'ROLE_AGENT', 'ROLE_ANNOTATOR', 'ROLE_CLIENT', 'ROLE_ENGINEER', 'ROLE_JOINER', 'ROLE_OPERATOR', 'ROLE_SERVICE', 'ROLE_UNSPECIFIED', 'Refers', 'Resource', 'Role', 'access', 'event', 'refers', 'resource']
