"""The engine: runs, steps, recovery and verdicts."""
