-- The chassis tables as the histories of services made them until they became a history of the chassis, in the words of
-- Postgres: those of 0.1.0, those that the first revision of a service added, and those of two later revisions.

-- stage 0.1.0
CREATE TABLE dead_letters (
    seq BIGSERIAL NOT NULL, group_name VARCHAR COLLATE "C" NOT NULL, id VARCHAR COLLATE "C" NOT NULL,
    type VARCHAR COLLATE "C" NOT NULL, topic VARCHAR COLLATE "C" NOT NULL, subject VARCHAR COLLATE "C" NOT NULL,
    headers TEXT NOT NULL, payload BYTEA NOT NULL, error TEXT, died_at BIGINT NOT NULL, PRIMARY KEY (seq),
    UNIQUE (group_name, id)
);
CREATE INDEX dead_letters_subject ON dead_letters (group_name, subject, seq);
CREATE TABLE inbox (
    group_name VARCHAR COLLATE "C" NOT NULL, id VARCHAR COLLATE "C" NOT NULL, seen_at BIGINT NOT NULL,
    PRIMARY KEY (group_name, id)
);
CREATE INDEX ix_inbox_seen_at ON inbox (seen_at);
CREATE TABLE inbox_states (
    group_name VARCHAR COLLATE "C" NOT NULL, subject VARCHAR COLLATE "C" NOT NULL, revision BIGINT NOT NULL,
    PRIMARY KEY (group_name, subject)
);
CREATE TABLE leases (
    name VARCHAR COLLATE "C" NOT NULL, holder VARCHAR COLLATE "C" NOT NULL, epoch BIGINT NOT NULL,
    renewals BIGINT NOT NULL, ttl BIGINT NOT NULL, expires_at BIGINT NOT NULL, PRIMARY KEY (name)
);
CREATE TABLE outbox (
    seq BIGSERIAL NOT NULL, id VARCHAR COLLATE "C" NOT NULL, type VARCHAR COLLATE "C" NOT NULL,
    topic VARCHAR COLLATE "C" NOT NULL, kind VARCHAR COLLATE "C" NOT NULL, subject VARCHAR COLLATE "C" NOT NULL,
    revision BIGINT NOT NULL, made_at BIGINT NOT NULL, headers TEXT NOT NULL, payload BYTEA NOT NULL,
    sent_at BIGINT, PRIMARY KEY (seq), UNIQUE (id)
);
CREATE INDEX outbox_made ON outbox (made_at);
CREATE INDEX outbox_subject ON outbox (topic, subject, seq);
CREATE INDEX outbox_unsent ON outbox (seq) WHERE sent_at IS NULL;
CREATE TABLE tasks (
    id VARCHAR COLLATE "C" NOT NULL, kind VARCHAR COLLATE "C" NOT NULL, resource VARCHAR COLLATE "C" NOT NULL,
    payload BYTEA NOT NULL, request_id VARCHAR COLLATE "C" NOT NULL, traceparent VARCHAR COLLATE "C" NOT NULL,
    state VARCHAR COLLATE "C" NOT NULL, attempt BIGINT NOT NULL, failures BIGINT NOT NULL, lapses BIGINT NOT NULL,
    epoch BIGINT NOT NULL, holder VARCHAR COLLATE "C" NOT NULL, renewals BIGINT NOT NULL, ttl BIGINT NOT NULL,
    expires_at BIGINT NOT NULL, due_at BIGINT NOT NULL, made_at BIGINT NOT NULL, reason TEXT NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX ix_tasks_resource ON tasks (resource);
CREATE INDEX tasks_due ON tasks (state, due_at);

-- stage 0001
CREATE TABLE audit (
    seq BIGSERIAL NOT NULL, at BIGINT NOT NULL, "user" VARCHAR COLLATE "C" NOT NULL,
    tenant VARCHAR COLLATE "C" NOT NULL, method VARCHAR COLLATE "C" NOT NULL, action VARCHAR COLLATE "C" NOT NULL,
    resource VARCHAR COLLATE "C" NOT NULL, revision BIGINT NOT NULL, outcome VARCHAR COLLATE "C" NOT NULL,
    reason VARCHAR COLLATE "C" NOT NULL, address VARCHAR COLLATE "C" NOT NULL, times BIGINT NOT NULL,
    fold VARCHAR COLLATE "C", PRIMARY KEY (seq), UNIQUE (fold)
);
CREATE INDEX ix_audit_at ON audit (at);
CREATE TABLE origins (
    name VARCHAR COLLATE "C" NOT NULL, "user" VARCHAR COLLATE "C" NOT NULL, tenant VARCHAR COLLATE "C" NOT NULL,
    PRIMARY KEY (name)
);
CREATE TABLE task_progress (
    id VARCHAR COLLATE "C" NOT NULL, resource VARCHAR COLLATE "C" NOT NULL, done BIGINT NOT NULL,
    total BIGINT NOT NULL, unit VARCHAR COLLATE "C" NOT NULL, PRIMARY KEY (id)
);
CREATE INDEX ix_task_progress_resource ON task_progress (resource);

-- stage scrubs
CREATE TABLE scrubs (
    name VARCHAR COLLATE "C" NOT NULL, since BIGINT NOT NULL, asked_at BIGINT NOT NULL, rate BIGINT NOT NULL,
    running TEXT NOT NULL, last TEXT NOT NULL, PRIMARY KEY (name)
);

-- stage audit_seals
CREATE TABLE audit_seals (
    place VARCHAR COLLATE "C" NOT NULL, digest VARCHAR COLLATE "C" NOT NULL, PRIMARY KEY (place, digest)
);
