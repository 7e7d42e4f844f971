"""One program for each engine: ``python -m benchmarks.engines.NAME TASK FOLDER N`` prints JSON."""
