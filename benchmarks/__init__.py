"""Measurements that a user can repeat: `python -m benchmarks.NAME`."""
