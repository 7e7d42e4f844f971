"""What can go wrong between a value and its recorded form."""

from __future__ import annotations

from durable_nb.model.errors import DurableError


class NotDigestible(DurableError):
    """An input has no digest, so a later run could not tell whether it changed."""

    def __init__(self, path: str, found: str, advice: str = "") -> None:
        super().__init__(path, found, advice)
        self.path, self.found, self.advice = path, found, advice

    def __str__(self) -> str:
        advice = self.advice or (
            "name what the step depends on instead, as plain data: inputs={...}"
        )
        return (
            f"{self.path} is a {self.found}, which has no digest. Nothing was started: the next "
            f"run could not tell whether this input changed. {advice[:1].upper()}{advice[1:]}."
        )


class ValueNotLoadable(DurableError):
    """A recorded value no longer fits what is defined now, or its text is damaged."""

    def __init__(self, what: str, reason: str, advice: str = "") -> None:
        super().__init__(what, reason, advice)
        self.what, self.reason, self.advice = what, reason, advice

    def __str__(self) -> str:
        advice = self.advice or "invalidate the operation to compute the value anew"
        return (
            f"the recorded {self.what} cannot be loaded: {self.reason}. The record itself is "
            f"untouched. {advice[:1].upper()}{advice[1:]}."
        )


class TextDamaged(ValueNotLoadable):
    """The recorded text of a value is not one that this package wrote."""

    def __init__(self, cause: str) -> None:
        super().__init__("value", f"its text is damaged ({cause})")
        self.args = (cause,)


class WaitingForClass(DurableError):
    """A recorded value is of a class that is not defined in this kernel yet."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return (
            f"waiting for class `{self.name}`: run its cell, the one that defines or imports it, "
            "then this one. A recorded value is of that class. It stays on record, and nothing is "
            "computed again."
        )


class ArtifactMissing(DurableError):
    """The bytes behind a recorded value are not among the artifacts of the run."""

    def __init__(self, sha256: str) -> None:
        super().__init__(sha256)
        self.sha256 = sha256

    def __str__(self) -> str:
        return (
            f"artifact {self.sha256[:12]}… is missing. The record that names it is intact, its "
            "value is lost. Restore the run's artifacts from a copy, or invalidate the operation."
        )


class ArtifactDamaged(DurableError):
    """The bytes behind a recorded value are not those that were recorded."""

    def __init__(self, sha256: str, reason: str) -> None:
        super().__init__(sha256, reason)
        self.sha256, self.reason = sha256, reason

    def __str__(self) -> str:
        return (
            f"artifact {self.sha256[:12]}… is damaged: {self.reason}. It was not used. Restore "
            "the run's artifacts from a copy, or invalidate the operation."
        )


class ArtifactStoreDamaged(DurableError):
    """The index of an artifact folder cannot be read."""

    def __init__(self, folder: str, reason: str) -> None:
        super().__init__(folder, reason)
        self.folder, self.reason = folder, reason

    def __str__(self) -> str:
        return (
            f"the artifact index in {self.folder} cannot be used: {self.reason}. No artifact was "
            "read or written. Restore the folder from a copy; small values are in the journal."
        )
