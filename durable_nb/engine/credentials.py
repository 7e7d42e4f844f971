"""Credentials: what a run acts with, for the scopes on record. None of it is ever written down."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from typing import Any, Final

from durable_nb import values
from durable_nb.model.facets import Part

_MISSING: Final = object()

#: What gives them: called with the scopes that hold.
Maker = Callable[[tuple[str, ...]], Any]


class Credentials:
    """What a ``credentials=`` function gives where it knows whose account that is.

    Frozen, and on purpose no dataclass: those can be recorded, and shown field by field.

    Parameters
    ----------
    value : Any
        The secret, or a client that holds it; `Run.credentials` gives it, nothing shows it.
    account : str
        Whose it is. Its fingerprint is recorded, and another one on a resume is asked about.
    """

    __slots__ = ("account", "value")
    account: str
    value: Any

    def __init__(self, value: Any, *, account: str) -> None:
        if not isinstance(account, str) or not account.strip():
            raise TypeError("account= is a text that names the account, such as a user or a tenant")
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "account", account)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"credentials are frozen: {name} cannot be set")

    def __reduce__(self) -> str:
        raise TypeError("credentials are not written down")

    def __repr__(self) -> str:
        return f"Credentials(account={values.preview(self.account, name='account')})"


class Wallet:
    """Gets the credentials of one opening of a run: once, when they are first needed."""

    def __init__(self, make: Maker | None) -> None:
        self.make = make
        self._found: Any = _MISSING
        self._lock = threading.RLock()

    def open(self, run: str, scopes: Callable[[], tuple[str, ...]]) -> Any:
        """Give what the function gave, calling it now if it was not called yet.

        Raises
        ------
        AttributeError
            The run was opened without any.
        """
        with self._lock:
            if self._found is _MISSING:
                if self.make is None:
                    raise AttributeError(f"run {run!r} was opened without credentials=")
                self._found = self.make(scopes())
            return self._found.value if isinstance(self._found, Credentials) else self._found

    def account(self, run_id: str) -> Part | None:
        """Give the account behind them, as it is recorded; `None` if it was not named."""
        if not isinstance(self._found, Credentials):
            return None
        account = self._found.account
        digest = hashlib.sha256(f"{run_id}\0{account}".encode("utf-8", "surrogatepass"))
        return Part(digest.hexdigest()[:16], values.preview(account, name="account"))
