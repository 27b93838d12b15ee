"""The resources and rows of the chat.

Promises: a record of an answer exists for the user that asked, the owner of the platform and services alone.
"""

from collections.abc import Sequence

from sqlalchemy import MetaData

from tutti.chassis.events.event import Event
from tutti.chassis.identity.principal import Principal
from tutti.chassis.store.resources import Resource
from tutti.chassis.store.unit import Unit
from tutti.chat.conversations import Conversations
from tutti.chat.generations import Generations
from tutti.chat.keys import Keys
from tutti.chat.reports import Reports
from tutti.contracts.access.v1 import User
from tutti.contracts.chat.v1 import Answer, Deployment


def is_shown(unit: Unit, answer: Answer, principal: Principal) -> bool:
    """Return whether the record of an answer exists for a principal."""
    asked = (principal.user, principal.tenant) == (answer.user, answer.tenant)
    return asked or principal.is_owner or principal.is_machine


class Tables:
    """The resources, and the rows of answers in progress and of conversations."""

    def __init__(self, metadata: MetaData) -> None:
        self.deployments: Resource[Deployment] = Resource(
            metadata,
            "deployments",
            Deployment,
            {"state": lambda each: int(each.state), "checkpoint": lambda each: each.spec.checkpoint},
        )
        self.answers: Resource[Answer] = Resource(
            metadata,
            "answers",
            Answer,
            {"deployment": lambda each: each.deployment, "user": lambda each: each.user},
            shown=is_shown,
        )
        self.generations = Generations(metadata)
        self.conversations = Conversations(metadata)
        self.keys = Keys(metadata)
        self.reports = Reports(metadata)

    def on_users(self, unit: Unit, events: Sequence[Event]) -> None:
        """Consume users: delete the conversations, requests, tokens and reports of those who were erased."""
        for event in events:
            user: User = event.message
            if user.erased:
                self.conversations.erase(unit, user.name)
                self.generations.erase_all(unit, user.name)
                self.reports.erase(unit, user.name)
