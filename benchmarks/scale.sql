-- Many runs in seconds: the rows of one that is there, again under other names. A run's rows do not
-- name it, so that each of these is one that can be opened.
INSERT INTO durable_nb.runs (name)
SELECT 'bulk-' || lpad(n::text, 8, '0') FROM generate_series(%(first)s::int, %(last)s::int) n;

CREATE TEMPORARY TABLE made AS
SELECT r.run FROM durable_nb.runs r WHERE r.name LIKE 'bulk-%%'
   AND NOT EXISTS (SELECT FROM durable_nb.leases l WHERE l.run = r.run);

INSERT INTO durable_nb.leases SELECT n.run, l.epoch, l.owner, l.taken, l.released
  FROM made n, durable_nb.leases l WHERE l.run = %(like)s;

INSERT INTO durable_nb.heartbeats SELECT n.run, h.epoch, h.beat
  FROM made n, durable_nb.heartbeats h WHERE h.run = %(like)s;

INSERT INTO durable_nb.mirrors SELECT n.run, m.name, m.data, m.stamp, m.seq, m.published
  FROM made n, durable_nb.mirrors m WHERE m.run = %(like)s;

INSERT INTO durable_nb.records
SELECT n.run, c.seq, c.op, c.kind, c.ts, c.epoch, c.body, c.digest
  FROM made n, LATERAL (SELECT * FROM durable_nb.records WHERE run = %(like)s ORDER BY seq) c;

DROP TABLE made;

VACUUM ANALYZE
