-- name: extensions
-- In the wheel, but not loaded once autoload is off; times are UTC everywhere.
LOAD icu;
SET TimeZone = 'UTC'

-- name: load_operations
-- A copy of what was read: views over the registered table would be shut with the rest below.
CREATE TABLE operations AS SELECT * FROM raw_operations

-- name: load_runs
-- From the texts of the metadata to the types of the view.
CREATE TABLE runs AS SELECT {columns} FROM raw_runs

-- name: lock_down
-- From here on a query can reach nothing but the two tables: no files, no network, no variables of
-- the caller, and no way to switch that on again.
SET enable_external_access = false;
SET python_enable_replacements = false;
SET lock_configuration = true

-- name: at_work
-- What is at work in which epoch of its run, and the median of the seconds that completed
-- operations of its name took. A wait is neither live, nor does it have a duration. What has called
-- others is left out on both sides: those stand for themselves, and may be waits.
WITH steps AS (
    SELECT * FROM operations AS o
     WHERE NOT EXISTS (FROM operations AS c WHERE c.run = o.run AND c.parent = o.id)
), usual AS (
    SELECT name, median(duration_s) AS usual_s FROM steps
     WHERE outcome = 'completed' AND error IS NULL
     GROUP BY name
)
SELECT DISTINCT s.run, r.epoch, s.id, s.started, u.usual_s
  FROM steps AS s
  JOIN runs AS r ON r.name = s.run
  LEFT JOIN usual AS u ON u.name = s.name
 WHERE s.live AND s.started IS NOT NULL
 ORDER BY s.run, s.started, s.id
