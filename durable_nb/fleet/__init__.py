"""The supervisor: notebooks executed without a front end, resumed when their kernel dies."""

from importlib.util import find_spec

_missing = [name for name in ("nbclient", "ipykernel") if find_spec(name) is None]
if _missing:
    raise ImportError(
        f"executing notebooks needs {' and '.join(_missing)}: pip install 'durable-nb[run]'"
    )
