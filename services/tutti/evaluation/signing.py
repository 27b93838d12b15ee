"""The key that signs releases, made once and kept in the service's own database.

Promises: all replicas of the service sign with one key; the private key leaves neither the database nor this process.
"""

from sqlalchemy import Column, LargeBinary, MetaData, select

from tutti.backbone import Randomness
from tutti.chassis.identity.signatures import SEED_BYTES, SigningKey
from tutti.chassis.store.tables import NAME, declare
from tutti.chassis.store.unit import Unit

RELEASES = "releases"


class SigningKeys:
    """The table of the key."""

    def __init__(self, metadata: MetaData, randomness: Randomness) -> None:
        self._randomness = randomness
        self.table = declare(
            "signing_keys",
            metadata,
            Column("purpose", NAME, primary_key=True),
            Column("seed", LargeBinary, nullable=False),
        )

    def of(self, unit: Unit) -> SigningKey:
        """The key; the first call makes it."""
        row = unit.tx.execute(select(self.table.c.seed).where(self.table.c.purpose == RELEASES)).first()
        if row is not None:
            return SigningKey(bytes(row.seed))
        seed = self._randomness.bits(8 * SEED_BYTES).to_bytes(SEED_BYTES, "big")
        unit.insert_new(self.table, [{"purpose": RELEASES, "seed": seed}])
        return SigningKey(seed)
