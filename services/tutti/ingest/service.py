"""The ingest service: visits a site or reads a folder, writes document shards, and chooses among their documents.

Promises: every file or record becomes a document or a rejection with a reason; the same folder gives the same digest;
where the folder lies is told to nobody. A filter reads what was measured of documents, never their texts.
"""

from collections.abc import Iterator
from pathlib import Path

from tutti.chassis.identity.principal import Principal
from tutti.chassis.rpc import standard
from tutti.chassis.service import Host, Service
from tutti.chassis.store.canonical import CanonicalLine
from tutti.chassis.store.unit import Unit
from tutti.contracts.ingest.v1 import IngestSpec
from tutti.contracts.ingest.v1.conversations_pb2 import DESCRIPTOR as CONVERSATIONS
from tutti.contracts.ingest.v1.ingest_pb2 import DESCRIPTOR
from tutti.corpus.counts import statistics
from tutti.corpus.quality import features
from tutti.ingest import classifiers, conversations, crawls, filters, ingests
from tutti.ingest.crawl.frontier import Frontier
from tutti.ingest.encoding import census, normalisation
from tutti.ingest.paths import Paths
from tutti.ingest.quality import languagemodel, pii
from tutti.ingest.reading import markup, shards
from tutti.ingest.reading.onray import lacking
from tutti.ingest.retractions import Retractions
from tutti.ingest.rpc import IngestApi
from tutti.ingest.settings import IngestSettings
from tutti.platform.cluster import require_engine
from tutti.upkeep import kernels

NATIVES = tuple(each.native for each in (census, markup, normalisation, pii, statistics, features, languagemodel))


def build(host: Host) -> Service:
    settings = host.settings(IngestSettings)
    paths, frontier = Paths(host.metadata, settings.roots), Frontier(host.metadata)
    crawl, read = crawls.work_of(host, frontier, paths), ingests.work_of(host, paths, settings)
    chosen, learnt = filters.work_of(host), classifiers.work_of(host, paths)
    gathered, retractions = conversations.work_of(host, paths), Retractions(host, read)

    def export(unit: Unit) -> Iterator[CanonicalLine]:
        for each in crawl.resource.select(unit):
            yield CanonicalLine(each.name, {"site_digest": each.site_digest, "state": int(each.state)})
        yield from read.export(unit)
        yield from chosen.export(unit)
        yield from retractions.export(unit)
        yield from learnt.export(unit)
        yield from gathered.export(unit)

    def asked(spec: IngestSpec, principal: Principal) -> shards.Reading:
        require_engine(spec.engine, lambda: lacking(settings))
        reading = ingests.reading_of(spec, paths.roots)
        if spec.input_path:  # archives of a crawl have none
            paths.check(spec.input_path, principal)
        return reading

    kept = standard.Stored(host.units, retractions.resource)
    classifier_api = classifiers.ClassifierApi(learnt, paths)
    api = IngestApi(host, crawl, frontier, read, chosen, retractions, paths, asked, classifier_api)
    return Service(
        name="ingest",
        reads=["annotation", "dedup"],
        resources=[
            crawl.resource,
            read.resource,
            chosen.resource,
            retractions.resource,
            learnt.resource,
            gathered.resource,
        ],
        tables=[paths.table, *frontier.tables],
        serves=[
            standard.served(DESCRIPTOR.services_by_name["IngestService"], api, read, chosen, learnt, kept),
            standard.served(
                CONVERSATIONS.services_by_name["ConversationsService"],
                conversations.ConversationsApi(gathered, paths),
                gathered,
            ),
        ],
        tasks=[crawl.task(), read.task(), chosen.task(), learnt.task(), gathered.task()],
        remakes=[read, chosen, learnt, gathered],
        export=export,
        checks=[kernels.check("texts are read and measured", "by Python, much slower", NATIVES)],
        migrations=Path(__file__).with_name("migrations"),
    )
