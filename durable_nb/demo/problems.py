"""What can go wrong with the demo itself."""

from __future__ import annotations

from collections.abc import Sequence

from durable_nb.model.errors import DurableError


class ModelMissing(DurableError):
    """The real model's packages are not installed. The CLI's exit code for it is 2."""

    exit_code = 2

    def __init__(self, model: str, commands: Sequence[str]) -> None:
        super().__init__(model, tuple(commands))
        self.model, self.commands = model, tuple(commands)

    def __str__(self) -> str:
        return (
            f"--model {self.model} needs packages that are not installed. "
            "Nothing was started. Run:\n"
            + "\n".join(f"    {command}" for command in self.commands)
            + "\nor leave --model out, for the scripted model."
        )


class FolderInUse(DurableError):
    """The folder to keep the demo in has something in it. The CLI's exit code for it is 2."""

    exit_code = 2

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self.folder = folder

    def __str__(self) -> str:
        return f"{self.folder} is not an empty folder. Nothing was started. Name a new one."


class KernelTrouble(DurableError):
    """A kernel died that nobody here killed, or a cell did not end in time."""

    def __init__(self, found: str) -> None:
        super().__init__(found)
        self.found = found

    def __str__(self) -> str:
        return f"the notebook's kernel is in trouble: {self.found}"


class DemoFailed(DurableError):
    """The demo did not go as it is told; what was found stays in its folder."""

    exit_code = 1

    def __init__(self, expected: str, found: str, folder: str) -> None:
        super().__init__(expected, found, folder)
        self.expected, self.found, self.folder = expected, found, folder

    def __str__(self) -> str:
        return (
            f"the demo expected {self.expected}.\nInstead: {self.found}\n"
            f"Its servers and kernels have ended; ledgers, journal and logs are in {self.folder}"
        )


class LabNotStarted(DurableError):
    """JupyterLab ended, or did not answer, before the notebook could be opened."""

    exit_code = 1

    def __init__(self, log: str, said: str) -> None:
        super().__init__(log, said)
        self.log, self.said = log, said

    def __str__(self) -> str:
        return (
            f"JupyterLab did not start. Its last words:\n{self.said.strip()}\n"
            "Nothing was refunded or mailed, and the servers have ended. "
            f"All of its log: {self.log}"
        )
