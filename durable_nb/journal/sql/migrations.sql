-- name: has_schema
-- A schema without the table of versions is one that an administrator made for us.
SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'durable_nb'),
       EXISTS (SELECT FROM pg_catalog.pg_class c
                 JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname = 'durable_nb' AND c.relname = 'versions')

-- name: version
-- The largest wins: versions are only added.
SELECT coalesce(max(version), 0) FROM durable_nb.versions

-- name: migration_lock
-- Two that start first do not collide: the second waits, and finds all done. The number is ours.
SELECT set_config('lock_timeout', '30s', true), set_config('statement_timeout', '0', true),
       pg_advisory_xact_lock(7237042213041914468)

-- name: create_schema
-- Not with IF NOT EXISTS: that asks for the right to create even where there is nothing to do.
CREATE SCHEMA durable_nb

-- name: create_versions
-- One row a migration that was made.
CREATE TABLE durable_nb.versions (
    version BIGINT PRIMARY KEY, made TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
)

-- name: add_version
-- In the transaction of the migration itself.
INSERT INTO durable_nb.versions (version) VALUES (%(version)s)

-- name: migration_1
-- The names of runs, and the records of all: never updated, never deleted. `op` and `body` are
-- encoded in rows.py. `digest` is the running digest after the row, so that it tells not only this
-- row but all before it: a batch that was sent again is recognised by its last one.
CREATE TABLE durable_nb.runs (
    run BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    born TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE durable_nb.records (
    run BIGINT NOT NULL, seq BIGINT NOT NULL, op TEXT NOT NULL, kind TEXT NOT NULL,
    ts BIGINT NOT NULL, epoch BIGINT NOT NULL, body BYTEA NOT NULL, digest BYTEA NOT NULL,
    PRIMARY KEY (run, seq)
)

-- name: migration_2
-- Who may append, and who lives. A heartbeat has a table of its own: on the lease row it would wait
-- behind an append. It is updated in place, so its pages keep room.
CREATE TABLE durable_nb.leases (
    run BIGINT PRIMARY KEY REFERENCES durable_nb.runs,
    epoch BIGINT NOT NULL, owner JSONB NOT NULL, taken TIMESTAMPTZ NOT NULL, released TIMESTAMPTZ
);
CREATE TABLE durable_nb.heartbeats (
    run BIGINT PRIMARY KEY REFERENCES durable_nb.runs,
    epoch BIGINT NOT NULL, beat TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);
INSERT INTO durable_nb.leases SELECT run, 0, '{}', clock_timestamp(), clock_timestamp()
  FROM durable_nb.runs;
INSERT INTO durable_nb.heartbeats (run, epoch) SELECT run, 0 FROM durable_nb.runs

-- name: migration_3
-- Large values, by the SHA-256 of their bytes in hexadecimal; a part is as long as a statement
-- should be. Kept uncompressed: most are compressed already, and their length is told unread.
CREATE TABLE durable_nb.artifacts (
    run BIGINT NOT NULL REFERENCES durable_nb.runs, sha256 TEXT NOT NULL,
    size BIGINT NOT NULL, parts INTEGER NOT NULL,
    PRIMARY KEY (run, sha256)
);
CREATE TABLE durable_nb.artifact_parts (
    run BIGINT NOT NULL, sha256 TEXT NOT NULL, part INTEGER NOT NULL, data BYTEA NOT NULL,
    PRIMARY KEY (run, sha256, part),
    FOREIGN KEY (run, sha256) REFERENCES durable_nb.artifacts ON DELETE CASCADE
);
ALTER TABLE durable_nb.artifact_parts ALTER COLUMN data SET STORAGE EXTERNAL

-- name: migration_4
-- What others say to a run's owner, until its answer is an hour old. `taker` is the owner that took
-- it last: one that stood still answers nothing that the next owner has taken. `refused` is what is
-- no message: it is named once and stays as it is.
CREATE TABLE durable_nb.messages (
    run BIGINT NOT NULL REFERENCES durable_nb.runs, id TEXT NOT NULL,
    sent TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(), body BYTEA NOT NULL,
    taken TIMESTAMPTZ, taker TEXT, refused TIMESTAMPTZ,
    answered TIMESTAMPTZ, answer BYTEA,
    PRIMARY KEY (run, id)
)

-- name: migration_5
-- The lock that an owner's session holds, whose name is a number; and whether it does. Mirrors:
-- views and never evidence. `stamp` is the time of the file, in ns, by the clock of its owner;
-- `seq` the last record that it shows.
CREATE FUNCTION durable_nb.owner_lock(run BIGINT, epoch BIGINT) RETURNS BIGINT IMMUTABLE
    LANGUAGE sql AS $$
        SELECT pg_catalog.hashtextextended('durable_nb.owner ' || run || ' ' || epoch, 0)
    $$;
CREATE FUNCTION durable_nb.is_owned(run BIGINT, epoch BIGINT) RETURNS BOOLEAN STABLE
    LANGUAGE sql AS $$
        SELECT EXISTS (
            SELECT FROM pg_catalog.pg_locks k JOIN pg_catalog.pg_database d ON d.oid = k.database
             WHERE k.locktype = 'advisory' AND d.datname = current_database()
               AND k.objsubid = 1 AND k.granted
               AND (k.classid::bigint << 32 | k.objid::bigint) = durable_nb.owner_lock(run, epoch))
    $$;
CREATE TABLE durable_nb.mirrors (
    run BIGINT NOT NULL REFERENCES durable_nb.runs, name TEXT NOT NULL,
    data BYTEA NOT NULL, stamp BIGINT NOT NULL, seq BIGINT NOT NULL,
    published TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (run, name)
)

-- name: migration_6
-- What the fleet executes, one row a run, whether it has begun or not. `turn` counts who was given
-- it: one that was succeeded changes nothing. `seq` is the last record when it was put down, so that
-- whatever is new calls it back; `due` when time does. `fleet_looks` is the one row that says when
-- somebody looked last at what has changed, and at all.
CREATE TABLE durable_nb.fleet (
    name TEXT PRIMARY KEY, state TEXT NOT NULL, turn BIGINT NOT NULL DEFAULT 0,
    since TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(), worker TEXT,
    seq BIGINT NOT NULL DEFAULT 0, due TIMESTAMPTZ, why TEXT NOT NULL DEFAULT '',
    failures JSONB NOT NULL DEFAULT '[]', submitted JSONB NOT NULL
);
CREATE INDEX ON durable_nb.fleet (name) WHERE state <> 'finished';
CREATE INDEX ON durable_nb.fleet (since);
CREATE INDEX ON durable_nb.fleet (due) WHERE state = 'waiting';
CREATE INDEX ON durable_nb.leases ((greatest(taken, released)));
CREATE INDEX ON durable_nb.messages (sent) WHERE answered IS NULL AND refused IS NULL;
CREATE TABLE durable_nb.fleet_looks (
    one BOOLEAN PRIMARY KEY DEFAULT true CHECK (one),
    looked TIMESTAMPTZ NOT NULL DEFAULT '-infinity', whole TIMESTAMPTZ NOT NULL DEFAULT '-infinity',
    busy TIMESTAMPTZ NOT NULL DEFAULT '-infinity'
);
INSERT INTO durable_nb.fleet_looks DEFAULT VALUES
