"""A real server for every test in here."""

from support.postgres_fixtures import cluster, opened, place, proxy, store

__all__ = ["cluster", "opened", "place", "proxy", "store"]
