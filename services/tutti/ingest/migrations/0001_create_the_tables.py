"""Create the tables."""

import sqlalchemy as sa
from alembic.operations import Operations

NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade(op: Operations) -> None:
    op.create_table(
        "classifiers",
        sa.Column("name", NAME, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("request_id", NAME, nullable=True),
        sa.Column("request_digest", sa.String(), nullable=False),
        sa.Column("state", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("name"),
        sa.UniqueConstraint("request_id"),
        if_not_exists=True,
    )
    op.create_index(op.f("ix_classifiers_state"), "classifiers", ["state"], unique=False, if_not_exists=True)
    op.create_table(
        "crawl_answers",
        sa.Column("crawl", NAME, nullable=False),
        sa.Column("url", NAME, nullable=False),
        sa.Column("again", sa.String(length=20), nullable=False),
        sa.Column("archive", sa.Text(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.String(length=40), nullable=False),
        sa.Column("digest", sa.String(length=100), nullable=False),
        sa.Column("nbytes", sa.BigInteger(), nullable=False),
        sa.Column("form", sa.Text(), nullable=False),
        sa.Column("etag", sa.Text(), nullable=False),
        sa.Column("modified", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("crawl", "url"),
        if_not_exists=True,
    )
    op.create_table(
        "crawl_hosts",
        sa.Column("crawl", NAME, nullable=False),
        sa.Column("host", NAME, nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("crawl", "host"),
        if_not_exists=True,
    )
    op.create_table(
        "crawl_notes",
        sa.Column("crawl", NAME, nullable=False),
        sa.Column("about", sa.String(length=20), nullable=False),
        sa.Column("url", NAME, nullable=False),
        sa.Column("words", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("crawl", "about", "url"),
        if_not_exists=True,
    )
    op.create_table(
        "crawl_pages",
        sa.Column("crawl", NAME, nullable=False),
        sa.Column("url", NAME, nullable=False),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("redirects", sa.Integer(), nullable=False),
        sa.Column("state", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("archive", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(length=100), nullable=False),
        sa.PrimaryKeyConstraint("crawl", "url"),
        if_not_exists=True,
    )
    op.create_index(
        "crawl_pages_by_state", "crawl_pages", ["crawl", "state", "depth", "url"], unique=False, if_not_exists=True
    )
    op.create_table(
        "crawl_rules_asked",
        sa.Column("crawl", NAME, nullable=False),
        sa.Column("host", NAME, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("times", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("crawl", "host"),
        if_not_exists=True,
    )
    op.create_table(
        "crawls",
        sa.Column("name", NAME, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("request_id", NAME, nullable=True),
        sa.Column("request_digest", sa.String(), nullable=False),
        sa.Column("state", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("name"),
        sa.UniqueConstraint("request_id"),
        if_not_exists=True,
    )
    op.create_index(op.f("ix_crawls_state"), "crawls", ["state"], unique=False, if_not_exists=True)
    op.create_table(
        "filters",
        sa.Column("name", NAME, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("request_id", NAME, nullable=True),
        sa.Column("request_digest", sa.String(), nullable=False),
        sa.Column("state", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("name"),
        sa.UniqueConstraint("request_id"),
        if_not_exists=True,
    )
    op.create_index(op.f("ix_filters_state"), "filters", ["state"], unique=False, if_not_exists=True)
    op.create_table(
        "ingests",
        sa.Column("name", NAME, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("request_id", NAME, nullable=True),
        sa.Column("request_digest", sa.String(), nullable=False),
        sa.Column("state", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("name"),
        sa.UniqueConstraint("request_id"),
        if_not_exists=True,
    )
    op.create_index(op.f("ix_ingests_state"), "ingests", ["state"], unique=False, if_not_exists=True)
    op.create_table(
        "paths",
        sa.Column("ingest", sa.String(length=400), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("ingest"),
        if_not_exists=True,
    )
    op.create_table(
        "retractions",
        sa.Column("name", NAME, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("request_id", NAME, nullable=True),
        sa.Column("request_digest", sa.String(), nullable=False),
        sa.Column("withdrawn", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("name"),
        sa.UniqueConstraint("request_id"),
        if_not_exists=True,
    )
    op.create_index(op.f("ix_retractions_withdrawn"), "retractions", ["withdrawn"], unique=False, if_not_exists=True)
