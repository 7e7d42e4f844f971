-- name: settings
-- Of a session: every time-out is below the lease, because an owner that stands still in an open
-- transaction would keep its lease row locked for ever. A stricter commit of the user's stays.
SELECT set_config('statement_timeout', %(statement)s, false),
       set_config('lock_timeout', %(lock)s, false),
       set_config('idle_in_transaction_session_timeout', %(idle)s, false),
       set_config('default_transaction_isolation', 'read committed', false),
       set_config('TimeZone', 'UTC', false),
       set_config('synchronous_commit',
                  CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN 'on'
                       ELSE current_setting('synchronous_commit') END, false)

-- name: give_birth
-- A run with a free lease, all or nothing; nothing if it is there.
WITH born AS (
    INSERT INTO durable_nb.runs (name) VALUES (%(name)s) ON CONFLICT DO NOTHING RETURNING run
), free AS (
    INSERT INTO durable_nb.leases SELECT run, 0, '{}', clock_timestamp(), clock_timestamp() FROM born
)
INSERT INTO durable_nb.heartbeats (run, epoch) SELECT run, 0 FROM born

-- name: plant_run
-- As `give_birth`, in the transaction in which the run gets its records and, last, its name.
WITH born AS (
    INSERT INTO durable_nb.runs (name) VALUES (%(name)s) RETURNING run
), free AS (
    INSERT INTO durable_nb.leases SELECT run, 0, '{}', clock_timestamp(), clock_timestamp() FROM born
), beat AS (
    INSERT INTO durable_nb.heartbeats (run, epoch) SELECT run, 0 FROM born
)
SELECT run FROM born

-- name: name_run
-- Of two that want the name the second waits for the first, and fails if that one comes through.
UPDATE durable_nb.runs SET name = %(name)s WHERE run = %(run)s

-- name: run_of
-- The number of a run.
SELECT run FROM durable_nb.runs WHERE name = %(name)s

-- name: take_lease
-- One statement: of two that race the second waits for the row, sees `taken` as it is now, and
-- changes nothing. (Of the heartbeat it would still see what it saw first: that alone would let it
-- through.) Only the server's clock counts, or the word of a machine that its own process is gone
-- (`dead`), if the server has lost that process as well. The epoch is above all that have written.
WITH late AS (SELECT clock_timestamp() - make_interval(secs => %(lease_s)s) AS limit), taken AS (
    UPDATE durable_nb.leases AS l
       SET epoch = 1 + greatest(l.epoch, (
               SELECT r.epoch FROM durable_nb.records r
                WHERE r.run = l.run ORDER BY r.seq DESC LIMIT 1)),
           owner = %(owner)s::jsonb, taken = clock_timestamp(), released = NULL
      FROM durable_nb.heartbeats AS h, late
     WHERE l.run = %(run)s AND h.run = l.run
       AND (l.released IS NOT NULL OR (l.taken < late.limit AND h.beat < late.limit)
            OR (l.epoch = %(dead)s::bigint AND NOT durable_nb.is_owned(l.run, l.epoch)))
 RETURNING l.run, l.epoch
), beat AS (
    UPDATE durable_nb.heartbeats AS h SET epoch = taken.epoch, beat = clock_timestamp()
      FROM taken WHERE h.run = taken.run
)
SELECT epoch FROM taken

-- name: claimed
-- After the answer of a take was lost, and the take was sent again: was it the one that came through?
SELECT epoch FROM durable_nb.leases
 WHERE run = %(run)s AND owner->>'claim' = %(claim)s AND released IS NULL

-- name: holder
-- Who has a run, with ages by the server's clock, which is the only one that counts. Not one
-- statement with the next: its plan for whatever name is given would read all runs.
SELECT r.name, l.epoch, l.owner,
       extract(epoch FROM clock_timestamp() - l.taken)::float8,
       extract(epoch FROM clock_timestamp() - greatest(h.beat, l.taken))::float8,
       extract(epoch FROM clock_timestamp() - l.released)::float8,
       CASE WHEN l.released IS NULL THEN durable_nb.is_owned(l.run, l.epoch) ELSE false END
  FROM durable_nb.runs r JOIN durable_nb.leases l USING (run) JOIN durable_nb.heartbeats h USING (run)
 WHERE r.name = %(name)s

-- name: holders
-- The same of all, with the last record and the last one that the mirror shows; either may be
-- missing. The server's locks are looked at once, and not again for every owner.
WITH locks AS MATERIALIZED (
    SELECT DISTINCT k.classid::bigint << 32 | k.objid::bigint AS key
      FROM pg_catalog.pg_locks k JOIN pg_catalog.pg_database d ON d.oid = k.database
     WHERE k.locktype = 'advisory' AND d.datname = current_database()
       AND k.objsubid = 1 AND k.granted
)
SELECT r.name, l.epoch, l.owner,
       extract(epoch FROM clock_timestamp() - l.taken)::float8,
       extract(epoch FROM clock_timestamp() - greatest(h.beat, l.taken))::float8,
       extract(epoch FROM clock_timestamp() - l.released)::float8,
       l.released IS NULL
           AND durable_nb.owner_lock(l.run, l.epoch) IN (SELECT key FROM locks),
       c.seq, m.seq
  FROM durable_nb.runs r JOIN durable_nb.leases l USING (run) JOIN durable_nb.heartbeats h USING (run)
  LEFT JOIN LATERAL (SELECT seq FROM durable_nb.records WHERE run = r.run
                      ORDER BY seq DESC LIMIT 1) c ON true
  LEFT JOIN durable_nb.mirrors m ON m.run = r.run AND m.name = 'operations.parquet'
 ORDER BY r.name

-- name: own
-- Of a session: the server drops it with the process. Whoever asks only looks at the list of locks.
SELECT pg_try_advisory_lock(durable_nb.owner_lock(%(run)s, %(epoch)s))

-- name: beat
-- Touches no row that an append touches: the two never wait for each other.
UPDATE durable_nb.heartbeats SET beat = clock_timestamp() WHERE run = %(run)s AND epoch = %(epoch)s

-- name: tell_owner
-- What others are told of the owner.
UPDATE durable_nb.leases SET owner = %(owner)s::jsonb
 WHERE run = %(run)s AND epoch = %(epoch)s AND released IS NULL

-- name: release
-- Free for anybody at once.
UPDATE durable_nb.leases SET owner = %(owner)s::jsonb, released = clock_timestamp()
 WHERE run = %(run)s AND epoch = %(epoch)s AND released IS NULL

-- name: runs
-- A run begins with its first record; what was set aside begins with a dot.
SELECT r.name FROM durable_nb.runs r
 WHERE r.name NOT LIKE '.%%' AND EXISTS (SELECT FROM durable_nb.records c WHERE c.run = r.run)
 ORDER BY r.name

-- name: standing
-- How far a run and its mirror are: equal as long as there is nothing new.
SELECT r.run, (extract(epoch FROM r.born) * 1000000)::bigint, l.epoch, l.released IS NULL,
       (SELECT coalesce(max(c.seq), 0) FROM durable_nb.records c WHERE c.run = r.run),
       m.seq, m.published
  FROM durable_nb.runs r JOIN durable_nb.leases l USING (run)
  LEFT JOIN durable_nb.mirrors m ON m.run = r.run AND m.name = 'operations.parquet'
 WHERE r.name = %(name)s

-- name: set_aside
-- Under its lease: the name is free, and nothing is deleted.
UPDATE durable_nb.runs r SET name = '.' || r.name || '.old-' || r.run
  FROM durable_nb.leases l
 WHERE r.run = %(run)s AND l.run = r.run AND l.epoch = %(epoch)s AND l.released IS NULL

-- name: mirror_stamps
-- What there is of all mirrors.
SELECT r.name, m.name, m.stamp FROM durable_nb.mirrors m JOIN durable_nb.runs r USING (run)

-- name: own_stamps
-- What there is of one.
SELECT name, stamp FROM durable_nb.mirrors WHERE run = %(run)s

-- name: mirror_files
-- In one statement, so that they belong together; without the bytes of those that are had.
SELECT m.name, m.stamp,
       CASE WHEN NOT EXISTS (
                SELECT FROM unnest(%(names)s::text[], %(stamps)s::bigint[]) AS had(name, stamp)
                 WHERE had.name = m.name AND had.stamp = m.stamp) THEN m.data END
  FROM durable_nb.mirrors m JOIN durable_nb.runs r USING (run) WHERE r.name = %(name)s

-- name: publish
-- Guarded as an append is: an owner that was succeeded does not hide what its successor shows.
WITH held AS MATERIALIZED (
    SELECT FROM durable_nb.leases
     WHERE run = %(run)s AND epoch = %(epoch)s AND released IS NULL FOR SHARE
), gone AS (
    DELETE FROM durable_nb.mirrors m USING held
     WHERE m.run = %(run)s AND m.name <> ALL(%(all)s::text[])
)
INSERT INTO durable_nb.mirrors AS m (run, name, data, stamp, seq)
SELECT %(run)s, n.name, n.data, n.stamp, coalesce(%(seq)s::bigint, (
           SELECT coalesce(max(c.seq), 0) FROM durable_nb.records c WHERE c.run = %(run)s))
  FROM held, unnest(%(names)s::text[], %(files)b::bytea[], %(stamps)s::bigint[])
             AS n(name, data, stamp)
    ON CONFLICT (run, name) DO UPDATE
   SET data = excluded.data, stamp = excluded.stamp, seq = excluded.seq,
       published = clock_timestamp()

-- name: claim
-- Of a supervisor's session: the server drops it with the process.
SELECT pg_try_advisory_lock(hashtextextended('durable_nb.supervisor ' || %(name)s, 0))

-- name: claim_beat
-- What the server keeps as the session's last word.
SELECT true

-- name: claimant
-- Which session has it, and for how long it has said nothing, by the server's clock. One of another
-- user's says nothing of itself, not even that.
SELECT a.pid, a.application_name, extract(epoch FROM clock_timestamp() - a.state_change)::float8
  FROM pg_catalog.pg_locks k JOIN pg_catalog.pg_database d ON d.oid = k.database
  JOIN pg_catalog.pg_stat_activity a USING (pid)
 WHERE k.locktype = 'advisory' AND d.datname = current_database() AND k.objsubid = 1 AND k.granted
   AND (k.classid::bigint << 32 | k.objid::bigint)
       = hashtextextended('durable_nb.supervisor ' || %(name)s, 0)

-- name: end_session
-- Of a supervisor that stands still; its locks go with it.
SELECT pg_terminate_backend(%(pid)s)

-- name: append
-- Guarded: nothing is inserted once another owner has raised the epoch. FOR SHARE waits for a
-- takeover that is under way and looks again; FOR KEY SHARE or a plain subquery would let it pass.
WITH held AS MATERIALIZED (
    SELECT FROM durable_nb.leases
     WHERE run = %(run)s AND epoch = %(epoch)s AND released IS NULL FOR SHARE
)
INSERT INTO durable_nb.records (run, seq, op, kind, ts, epoch, body, digest)
SELECT %(run)s, n.seq, n.op, n.kind, n.ts, n.epoch, n.body, n.digest
  FROM held, unnest(%(seqs)b::bigint[], %(ops)b::text[], %(kinds)b::text[], %(tss)b::bigint[],
                    %(epochs)b::bigint[], %(bodies)b::bytea[], %(digests)b::bytea[])
             AS n(seq, op, kind, ts, epoch, body, digest)

-- name: plant_records
-- Of a run that nobody sees yet, so that there is no owner to guard against.
INSERT INTO durable_nb.records (run, seq, op, kind, ts, epoch, body, digest)
SELECT %(run)s, n.seq, n.op, n.kind, n.ts, n.epoch, n.body, n.digest
  FROM unnest(%(seqs)b::bigint[], %(ops)b::text[], %(kinds)b::text[], %(tss)b::bigint[],
              %(epochs)b::bigint[], %(bodies)b::bytea[], %(digests)b::bytea[])
             AS n(seq, op, kind, ts, epoch, body, digest)

-- name: written
-- What stands at a place that is taken.
SELECT epoch, digest FROM durable_nb.records WHERE run = %(run)s AND seq = %(seq)s

-- name: extent
-- How long a run is, without reading it.
SELECT coalesce(max(seq), 0) FROM durable_nb.records WHERE run = %(run)s

-- name: has_pins
-- A pin takes out what was folded before it.
SELECT EXISTS (SELECT FROM durable_nb.records WHERE run = %(run)s AND kind = 'pinned')

-- name: rows_after
-- The next part of a run, in order.
SELECT seq, op, kind, ts, epoch, body, digest FROM durable_nb.records
 WHERE run = %(run)s AND seq > %(after)s ORDER BY seq LIMIT %(most)s

-- name: rows_between
-- Neighbours, read again.
SELECT seq, op, kind, ts, epoch, body FROM durable_nb.records
 WHERE run = %(run)s AND seq BETWEEN %(first)s AND %(last)s ORDER BY seq

-- name: rows_at
-- Single rows, read again.
SELECT seq, op, kind, ts, epoch, body FROM durable_nb.records
 WHERE run = %(run)s AND seq = ANY(%(seqs)s)

-- name: begin
-- Of several statements that count as one.
BEGIN

-- name: commit
-- On disk once this is answered.
COMMIT

-- name: put_artifact
-- What was there under the digest was damaged, or is the same; the row is locked to the end, so two
-- that put the same are one after the other.
WITH kept AS (
    INSERT INTO durable_nb.artifacts (run, sha256, size, parts)
    VALUES (%(run)s, %(sha256)s, %(size)s, %(parts)s)
    ON CONFLICT (run, sha256) DO UPDATE SET size = EXCLUDED.size, parts = EXCLUDED.parts
)
DELETE FROM durable_nb.artifact_parts
 WHERE run = %(run)s AND sha256 = %(sha256)s AND part >= %(parts)s

-- name: put_part
-- Its artifact's row is there and locked.
INSERT INTO durable_nb.artifact_parts (run, sha256, part, data)
VALUES (%(run)s, %(sha256)s, %(part)s, %(data)b)
ON CONFLICT (run, sha256, part) DO UPDATE SET data = EXCLUDED.data

-- name: artifact_sizes
-- All that are there.
SELECT sha256, size FROM durable_nb.artifacts WHERE run = %(run)s

-- name: remove_artifact
-- Guarded as an append is; its parts go with it. Tells whether the run is held.
WITH held AS MATERIALIZED (
    SELECT FROM durable_nb.leases
     WHERE run = %(run)s AND epoch = %(epoch)s AND released IS NULL FOR SHARE
), gone AS (
    DELETE FROM durable_nb.artifacts a USING held
     WHERE a.run = %(run)s AND a.sha256 = %(sha256)s
)
SELECT EXISTS (SELECT FROM held)

-- name: copy_artifact
-- From another run of this store, as it is; nothing if it is not there.
WITH there AS (
    INSERT INTO durable_nb.artifacts (run, sha256, size, parts)
    SELECT %(run)s, a.sha256, a.size, a.parts FROM durable_nb.artifacts a
     WHERE a.run = %(source)s AND a.sha256 = %(sha256)s
    RETURNING sha256
)
INSERT INTO durable_nb.artifact_parts (run, sha256, part, data)
SELECT %(run)s, p.sha256, p.part, p.data
  FROM durable_nb.artifact_parts p JOIN there USING (sha256) WHERE p.run = %(source)s

-- name: artifact_digests
-- What is there, without its bytes being sent; no row if there is no such artifact.
SELECT a.size, a.parts, p.part, sha256(p.data)
  FROM durable_nb.artifacts a LEFT JOIN durable_nb.artifact_parts p USING (run, sha256)
 WHERE a.run = %(run)s AND a.sha256 = %(sha256)s ORDER BY p.part

-- name: artifact_part
-- One part, and how many there should be; no row if there is no such artifact.
SELECT a.parts, p.data
  FROM durable_nb.artifacts a
  LEFT JOIN durable_nb.artifact_parts p
    ON p.run = a.run AND p.sha256 = a.sha256 AND p.part = %(part)s
 WHERE a.run = %(run)s AND a.sha256 = %(sha256)s

-- name: artifacts_whole
-- Those that are there in their full size; the length of a part is known without reading it.
SELECT n.sha256, n.size
  FROM unnest(%(sha256s)s::text[], %(sizes)s::bigint[]) AS n(sha256, size)
  JOIN durable_nb.artifacts a ON a.run = %(run)s AND a.sha256 = n.sha256 AND a.size = n.size
 WHERE (a.size, a.parts) = (
           SELECT coalesce(sum(octet_length(p.data)), 0), count(*)
             FROM durable_nb.artifact_parts p WHERE p.run = a.run AND p.sha256 = a.sha256)

-- name: send_message
-- Sent again after a lost answer it is there once. Whoever listens hears of it at the commit.
WITH sent AS (
    INSERT INTO durable_nb.messages (run, id, body) VALUES (%(run)s, %(id)s, %(body)b)
    ON CONFLICT DO NOTHING RETURNING run
)
SELECT pg_notify(%(channel)s, '') FROM sent

-- name: withdraw_message
-- Only what nobody has taken: of a withdrawal and a taking one waits for the other, looks again and
-- changes nothing. Also tells whether it was there at all, for one that is sent again.
WITH gone AS (
    DELETE FROM durable_nb.messages
     WHERE run = %(run)s AND id = %(id)s
       AND taken IS NULL AND answered IS NULL AND refused IS NULL RETURNING id
)
SELECT EXISTS (SELECT FROM gone),
       EXISTS (SELECT FROM durable_nb.messages WHERE run = %(run)s AND id = %(id)s)

-- name: take_message
-- What an owner that is gone had taken is taken again.
UPDATE durable_nb.messages SET taken = clock_timestamp(), taker = %(taker)s
 WHERE run = %(run)s AND id = %(id)s AND answered IS NULL AND refused IS NULL

-- name: put_message_back
-- For the next owner, unless it has it already.
UPDATE durable_nb.messages SET taken = NULL, taker = NULL
 WHERE run = %(run)s AND id = %(id)s AND answered IS NULL AND taker = %(taker)s

-- name: answer_message
-- In the place of the message, in one step. Not if another owner has taken it meanwhile.
WITH done AS (
    UPDATE durable_nb.messages
       SET answer = %(answer)b, answered = clock_timestamp(), body = ''
     WHERE run = %(run)s AND id = %(id)s AND answered IS NULL
       AND (taker IS NULL OR taker = %(taker)s) RETURNING id
)
SELECT pg_notify(%(channel)s, id) FROM done

-- name: answer_of
-- Of one that is too long only its length is sent.
SELECT octet_length(answer), CASE WHEN octet_length(answer) <= %(limit)s THEN answer END
  FROM durable_nb.messages WHERE run = %(run)s AND id = %(id)s AND answered IS NOT NULL

-- name: pending_messages
-- In order of arrival, by the server's clock. Old answers are removed on the way.
WITH old AS (
    DELETE FROM durable_nb.messages
     WHERE run = %(run)s AND answered < clock_timestamp() - make_interval(secs => %(kept_s)s)
)
SELECT id, octet_length(body), CASE WHEN octet_length(body) <= %(limit)s THEN body END
  FROM durable_nb.messages
 WHERE run = %(run)s AND answered IS NULL AND refused IS NULL ORDER BY sent, id

-- name: refuse_message
-- What is no message is kept for a person to look at, and not read again.
UPDATE durable_nb.messages SET refused = clock_timestamp()
 WHERE run = %(run)s AND id = %(id)s AND answered IS NULL AND refused IS NULL

