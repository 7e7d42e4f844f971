-- name: fleet_add
-- A run for the fleet; nothing if there is one of this name.
INSERT INTO durable_nb.fleet (name, state, submitted)
VALUES (%(name)s, 'queued', %(submitted)s::jsonb) ON CONFLICT DO NOTHING

-- name: fleet_again
-- Once more, with what was submitted now; not while it is at work.
UPDATE durable_nb.fleet
   SET state = 'queued', turn = turn + 1, since = clock_timestamp(), worker = NULL, due = NULL,
       why = '', failures = '[]', submitted = %(submitted)s::jsonb
 WHERE name = %(name)s AND state <> 'working'
RETURNING turn

-- name: fleet_row
-- What is known of one.
SELECT state, turn, worker, why, failures, submitted FROM durable_nb.fleet WHERE name = %(name)s

-- name: fleet_begin
-- The turn of a worker; whoever had the one before changes nothing any more. What is finished or
-- parked is left alone.
UPDATE durable_nb.fleet
   SET state = 'working', turn = turn + 1, since = clock_timestamp(), worker = %(worker)s, due = NULL
 WHERE name = %(name)s AND state NOT IN ('finished', 'parked')
RETURNING turn, failures, submitted

-- name: fleet_put_down
-- At the end of a turn, by whoever has it. The clock of the worker may be wrong: what counts is in
-- how many seconds it is due.
UPDATE durable_nb.fleet
   SET state = %(state)s, since = clock_timestamp(), why = %(why)s, seq = %(seq)s,
       failures = %(failures)s::jsonb, worker = CASE WHEN %(state)s = 'queued' THEN NULL ELSE worker END,
       due = clock_timestamp() + make_interval(secs => %(due_s)s::float8)
 WHERE name = %(name)s AND turn = %(turn)s

-- name: fleet_orphaned
-- Its worker says nothing any more.
UPDATE durable_nb.fleet
   SET state = 'queued', turn = turn + 1, since = clock_timestamp(), why = %(why)s
 WHERE name = %(name)s AND state = 'working'

-- name: fleet_look
-- Whether it is time to look, and nobody else does: then whether at all, from when on, and what time
-- it is. One that stands still in the middle keeps others from it for a lease, and no longer. An
-- interval before the last look is looked at again, longer than what was under way then can take.
UPDATE durable_nb.fleet_looks AS now
   SET busy = clock_timestamp() + make_interval(secs => %(lease_s)s::float8)
  FROM (SELECT whole < clock_timestamp() - make_interval(secs => %(whole_s)s::float8) AS is_whole
          FROM durable_nb.fleet_looks) AS due
 WHERE now.busy < clock_timestamp()
   AND now.looked < clock_timestamp() - make_interval(secs => %(every_s)s::float8)
RETURNING due.is_whole,
          (CASE WHEN due.is_whole THEN '-infinity'
                ELSE now.looked - make_interval(secs => %(again_s)s::float8) END)::text,
          clock_timestamp()::text

-- name: fleet_looked
-- All that was found is in the queue. Whoever is killed before that moves nothing.
UPDATE durable_nb.fleet_looks
   SET looked = %(at)s::timestamptz,
       whole = CASE WHEN %(whole)s THEN %(at)s::timestamptz ELSE whole END
 WHERE looked < %(at)s::timestamptz

-- name: fleet_look_over
-- Another one may look.
UPDATE durable_nb.fleet_looks SET busy = '-infinity'

-- name: fleet_idle
-- What is to be queued: it was put down and something is new, or its time has come; or it should be
-- in the queue and is not, because whoever was to put it there was killed. Only what was touched
-- since some time is looked at: a run that waits costs nothing.
WITH touched AS (
    SELECT r.name FROM durable_nb.leases l JOIN durable_nb.runs r USING (run)
     WHERE greatest(l.taken, l.released) >= %(since)s::timestamptz
     UNION
    SELECT r.name FROM durable_nb.messages m JOIN durable_nb.runs r USING (run)
     WHERE m.answered IS NULL AND m.refused IS NULL AND m.sent >= %(since)s::timestamptz
     UNION
    SELECT name FROM durable_nb.fleet WHERE since >= %(since)s::timestamptz
     UNION
    SELECT name FROM durable_nb.fleet WHERE state = 'waiting' AND due <= clock_timestamp()
)
SELECT f.name FROM touched JOIN durable_nb.fleet f USING (name)
 WHERE CASE WHEN f.state IN ('waiting', 'person needed') THEN
              f.due <= clock_timestamp()
              OR EXISTS (SELECT FROM durable_nb.runs r WHERE r.name = f.name
                            AND (EXISTS (SELECT FROM durable_nb.records c
                                          WHERE c.run = r.run AND c.seq > f.seq)
                                 OR EXISTS (SELECT FROM durable_nb.messages m WHERE m.run = r.run
                                               AND m.answered IS NULL AND m.refused IS NULL)))
            WHEN f.state IN ('queued', 'working') THEN
              f.since < clock_timestamp() - make_interval(secs => %(grace_s)s::float8)
            END
   AND NOT EXISTS (SELECT FROM durable_nb_queue.procrastinate_jobs j
                    WHERE j.queueing_lock = f.name AND j.status = 'todo')
   AND NOT EXISTS (SELECT FROM durable_nb_queue.procrastinate_jobs j
                    WHERE j.lock = f.name AND j.status = 'doing')

-- name: fleet_roster
-- What runs where. A worker that has said nothing for a lease has left an orphan.
SELECT f.name,
       CASE WHEN f.state = 'working' AND (w.id IS NULL OR w.last_heartbeat
                 < clock_timestamp() - make_interval(secs => %(lease_s)s::float8))
            THEN 'orphaned' ELSE f.state END,
       CASE WHEN f.state = 'working' THEN f.worker END,
       extract(epoch FROM clock_timestamp() - f.since)::float8,
       extract(epoch FROM coalesce(f.due, t.scheduled_at) - clock_timestamp())::float8,
       f.why, f.failures
  FROM durable_nb.fleet f
  LEFT JOIN durable_nb_queue.procrastinate_jobs t ON t.queueing_lock = f.name AND t.status = 'todo'
  LEFT JOIN durable_nb_queue.procrastinate_jobs d ON d.lock = f.name AND d.status = 'doing'
  LEFT JOIN durable_nb_queue.procrastinate_workers w ON w.id = d.worker_id
 WHERE %(every)s::boolean OR f.state <> 'finished'
 ORDER BY f.name

-- name: queue_lock
-- Two that start first do not collide. The number is ours.
SELECT set_config('lock_timeout', '30s', true), set_config('statement_timeout', '0', true),
       pg_advisory_xact_lock(7237042213041914469)

-- name: queue_made
-- Which of procrastinate's scripts were done; no row if there is no queue.
SELECT obj_description(oid, 'pg_namespace') FROM pg_catalog.pg_namespace
 WHERE nspname = 'durable_nb_queue'

-- name: queue_begin
-- A schema of its own: an application's own queue in this database is another one.
CREATE SCHEMA IF NOT EXISTS durable_nb_queue;
SET LOCAL search_path = durable_nb_queue

-- name: queue_search_path
-- Of a session that talks to the queue.
SELECT set_config('search_path', 'durable_nb_queue', false)
