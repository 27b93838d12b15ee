"""The lineage service: a fold of immutable manifests and owners' lists.

Promises: events only wake it; below a shard nothing is stored; the tables can be made anew from the owners.
"""

from pathlib import Path

from tutti.chassis.service import Consumed, Host, Served, Service
from tutti.contracts.lineage.v1.lineage_pb2 import DESCRIPTOR
from tutti.lineage.documents import Documents
from tutti.lineage.folding import Folding
from tutti.lineage.graph import KINDS
from tutti.lineage.library import Library
from tutti.lineage.listing import Listing
from tutti.lineage.rebuild import Rebuild
from tutti.lineage.rpc import LineageApi
from tutti.lineage.tables import Tables
from tutti.lineage.texts import Texts


def build(host: Host) -> Service:
    tables = Tables(host.metadata)
    rebuild = Rebuild(host.metadata, tables)
    folding = Folding(host, tables, rebuild)
    library = Library(host.blobs)
    documents, listing = Documents(host, tables, library), Listing(host, tables, library)
    api = LineageApi(host, tables, documents, listing, Texts(host, library), folding)

    return Service(
        name="lineage",
        reads=["annotation", "committer", "dedup", "evaluation", "ingest", "sampling", "tokenization", "trainer"],
        resources=[],
        tables=(*tables.all, *rebuild.tables),
        serves=[Served(DESCRIPTOR.services_by_name["LineageService"], api)],
        consumes=[Consumed(kind.message, folding.on_resources) for kind in KINDS],
        loops=[folding.reconciler],
        checks=[folding.folding, folding.manifests],
        migrations=Path(__file__).with_name("migrations"),
    )
