-- name: create_meta
-- One row: the version of the tables and of the record bodies.
CREATE TABLE j.main.meta (schema_version BIGINT)

-- name: create_records
-- No key and no index on purpose: DuckDB's index bugs recur across releases, a primary key doubles
-- the cost of an insert, and order and gaps are checked on load. Never updated, never deleted.
-- `ts` is in microseconds since 1970, UTC. `op` and `body` are encoded in rows.py: bound values
-- drift, and a lone surrogate is refused.
CREATE TABLE j.main.records (
    seq BIGINT, op VARCHAR, kind VARCHAR, ts BIGINT, epoch BIGINT, body BLOB
)

-- name: create_landing
-- The records of each commit in one text (landing.py), until they move to the table of records.
CREATE TABLE j.main.landing (batch VARCHAR)

-- name: insert_meta
-- Written in the transaction that creates the tables.
INSERT INTO j.main.meta VALUES ($version)

-- name: checkpoint
-- After each schema change: un-checkpointed ones can make a file unopenable.
CHECKPOINT j

-- name: tables
-- Which of our tables are there: none in a new file.
SELECT table_name FROM duckdb_tables() WHERE database_name = 'j' AND schema_name = 'main'

-- name: schema_version
-- The largest wins: meta is append-only as well.
SELECT max(schema_version) FROM j.main.meta

-- name: prepare_land
-- One commit, autocommitted: the cheapest durable write. Prepared, it is planned once; what is bound
-- from Python would be planned anew each time.
PREPARE land AS INSERT INTO j.main.landing VALUES ($1)

-- name: landed
-- What has not moved yet, in the order of the commits.
SELECT batch FROM j.main.landing

-- name: landed_extent
-- How much of it there is: commits, and bytes.
SELECT count(*), coalesce(sum(strlen(batch)), 0)::BIGINT FROM j.main.landing

-- name: clear_landing
-- In the transaction that has put all of it into the table of records.
DELETE FROM j.main.landing

-- name: has_pins
-- A commit with a pin never lands.
SELECT 1 FROM j.main.records WHERE kind = 'pinned' LIMIT 1

-- name: all_records
-- Everything. Insertion order is the order by seq; the caller sorts a list that is sorted already,
-- which costs nothing, where a sort in here would cost memory.
SELECT seq, op, kind, ts, epoch, body FROM j.main.records

-- name: count
-- How long the journal is.
SELECT count(*) FROM j.main.records

-- name: between
-- Neighbours, read again.
SELECT seq, op, kind, ts, epoch, body FROM j.main.records WHERE seq BETWEEN $first AND $last

-- name: last_pin
-- The last pin of the loops that were not found yet; a group over all pins takes ten times as long.
SELECT arg_max(op, seq), max(seq) FROM j.main.records WHERE kind = 'pinned' AND NOT ({known})

-- name: last_pins
-- The last pin of each loop, where there are many. What is left of a stretch without its number
-- (`turns#`) begins the identity of all its stretches, and of what is below them.
SELECT rtrim(op, '0123456789') AS stretches, max(seq) FROM j.main.records
 WHERE kind = 'pinned' GROUP BY stretches

-- name: extent
-- Without gaps these three agree: a quick look at what is not read.
SELECT count(*), min(seq), max(seq) FROM j.main.records

-- name: unretired
-- What lies before the last pin and was not retired by one: seq alone, because a scan of the bodies
-- takes ten times as long.
SELECT seq FROM j.main.records WHERE seq < $pin AND NOT ({retired})

-- name: records_at
-- Those. What lies after is read by `tail`: one condition on both would read all bodies.
SELECT seq, op, kind, ts, epoch, body FROM j.main.records
 WHERE seq IN (SELECT unnest($seqs::BIGINT[]))

-- name: retired_seqs
-- When each operation began that a pin has retired: row numbers go on counting it.
SELECT min(seq) AS first FROM j.main.records WHERE {retired} GROUP BY op

-- name: tail
-- What lies after the last acknowledged record: read again after any failed commit.
SELECT seq, op, kind, ts, epoch, body FROM j.main.records WHERE seq > $seq ORDER BY seq

-- name: look_only
-- Before a foreign file is read: whatever it holds can reach no file and no network.
SET enable_external_access = false;
SET lock_configuration = true
