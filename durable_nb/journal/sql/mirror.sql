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
