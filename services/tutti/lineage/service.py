"""The lineage service: a fold of immutable manifests and owners' lists.

Promises: events only wake it; below a shard nothing is stored; the tables can be dropped and made anew.
"""

from collections.abc import Iterator

from tutti.chassis.canonical import CanonicalLine
from tutti.chassis.service import Consumed, Host, Served, Service
from tutti.chassis.unit import Unit
from tutti.contracts.lineage.v1.lineage_pb2 import DESCRIPTOR
from tutti.lineage.documents import Documents
from tutti.lineage.folding import Folding
from tutti.lineage.graph import KINDS
from tutti.lineage.library import Library
from tutti.lineage.rpc import LineageApi
from tutti.lineage.tables import Tables


def build(host: Host) -> Service:
    tables = Tables(host.metadata)
    folding = Folding(host, tables)
    api = LineageApi(host, tables, Documents(host, tables, Library(host.blobs)))

    def export(unit: Unit) -> Iterator[CanonicalLine]:
        for edge in tables.every_edge(unit):
            yield CanonicalLine(f"lineage {edge.parent} {edge.child}", {"relation": edge.relation})

    return Service(
        name="lineage",
        resources=[],
        tables=tables.all,
        serves=[Served(DESCRIPTOR.services_by_name["LineageService"], api)],
        consumes=[Consumed(kind, folding.on_resources) for kind in KINDS],
        loops=[folding.reconciler],
        export=export,
        checks=[folding.manifests],
    )
