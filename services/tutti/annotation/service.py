"""The annotation service: campaigns, judgements, and the preferences and demonstrations that follow from them.

Promises: a judgement that was accepted is never lost or doubled; what is published follows from the set of judgements
and the version of the fit.
"""

from collections.abc import Iterator
from pathlib import Path

from tutti.annotation.campaigns.campaigns import Campaigns
from tutti.annotation.campaigns.crowds import Crowds
from tutti.annotation.campaigns.desk import Desk
from tutti.annotation.campaigns.estimates import Estimates
from tutti.annotation.judging.rows import Rows
from tutti.annotation.pages.ownerpages import OwnerPages
from tutti.annotation.pages.pages import AnnotationPages
from tutti.annotation.publishing.preferring import preferring
from tutti.annotation.publishing.versions import publishing
from tutti.annotation.rpc.api import AnnotationApi
from tutti.annotation.settings import AnnotationSettings
from tutti.annotation.tables import Tables
from tutti.chassis.rpc import standard
from tutti.chassis.service import Host, Service
from tutti.chassis.store.canonical import CanonicalLine
from tutti.chassis.store.unit import Unit
from tutti.contracts.annotation.v1 import AnnotatorRetracted, JudgementsAccepted, PreferencesPublished
from tutti.contracts.annotation.v1.annotation_pb2 import DESCRIPTOR


def build(host: Host) -> Service:
    settings = host.settings(AnnotationSettings)
    tables = Tables(host.metadata)
    rows = Rows(tables)
    desk = Desk(rows, settings.lease_minutes * 60, host.randomness)
    preferences, demonstrations = preferring(host, tables), publishing(host, tables)
    estimates = Estimates(host, rows, preferences)
    campaigns = Campaigns(host, tables, rows, estimates, settings.look_seconds, settings.undo_seconds)
    owners = OwnerPages(host, tables, rows, campaigns, estimates)
    site = AnnotationPages(host, tables, desk, settings, campaigns, owners).site
    crowds = Crowds(host, tables, rows, site)
    api = AnnotationApi(host, tables, rows, campaigns, preferences, demonstrations, estimates)

    def export(unit: Unit) -> Iterator[CanonicalLine]:
        for campaign in tables.campaigns.select(unit):
            content = {"content_digest": campaign.result.content_digest, "state": campaign.state}
            yield CanonicalLine(campaign.name, content)
        yield from preferences.export(unit)
        yield from demonstrations.export(unit)

    return Service(
        name="annotation",
        reads=["ingest", "sampling"],
        resources=[tables.campaigns, preferences.resource, demonstrations.resource],
        holds=tables.holds,
        facts=[AnnotatorRetracted, JudgementsAccepted, PreferencesPublished],
        tables=tables.rows,
        serves=[
            standard.served(
                DESCRIPTOR.services_by_name["AnnotationService"],
                api,
                standard.Stored(host.units, tables.campaigns),
                preferences,
                demonstrations,
            )
        ],
        tasks=[*campaigns.tasks(), crowds.task(), estimates.task(), preferences.task(), demonstrations.task()],
        loops=[campaigns.reconciler],
        export=export,
        migrations=Path(__file__).with_name("migrations"),
        pages=site,
    )
