"""The version of what dedup finds: results of another one are made again."""

NEAR_VERSION = 1
"""Another one finds other near duplicates."""

LOGIC_VERSION = f"dedup-3.{NEAR_VERSION}"
