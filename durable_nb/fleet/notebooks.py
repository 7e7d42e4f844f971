"""Notebooks as they are submitted: read and checked, with parameters, before anything is begun."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

import nbformat
from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel
from nbformat import NotebookNode

from durable_nb import values
from durable_nb.fleet.errors import NotebookUnusable

#: As papermill has it, so that a notebook works with both.
PARAMETERS: Final = "parameters"
INJECTED: Final = "injected-parameters"
#: What nbformat raises for files that are not what they should be.
_UNREADABLE: Final = (
    OSError, ValueError, TypeError, AttributeError, KeyError, nbformat.ValidationError,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Submitted:
    """What a run executes: a notebook as it was when it was submitted, and its parameters.

    Attributes
    ----------
    path : str
        Where it was.
    text : str
        The notebook file, without outputs, with its parameters in it.
    parameters : dict
        Name to a value that JSON carries.
    kernel : str
        The kernel spec that it asks for.
    folder : str
        Where the kernel works; "" for the notebook's own folder.
    output : str
        The executed notebook whose path gave the run its name; "" for a name that was given.
    """

    path: str
    text: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    kernel: str = "python3"
    folder: str = ""
    output: str = ""

    @property
    def notebook(self) -> NotebookNode:
        """The notebook that is executed."""
        made: NotebookNode = nbformat.reads(self.text, as_version=4)  # type: ignore[no-untyped-call]
        return made

    @property
    def works_in(self) -> Path:
        """The folder where the kernel works."""
        return Path(self.folder) if self.folder else Path(self.path).parent

    def as_json(self) -> dict[str, Any]:
        """Give it as a record keeps it."""
        return {
            "path": self.path,
            "text": self.text,
            "parameters": dict(self.parameters),
            "kernel": self.kernel,
            "folder": self.folder,
            "output": self.output,
        }


def submit(path: Path, parameters: Mapping[str, Any]) -> Submitted:
    """Read a notebook, and check all that can be checked before a kernel is started.

    Raises
    ------
    NotebookUnusable
        It does not load, its kernel is not installed, or it has no such parameter. Nothing was
        begun.
    """
    notebook = _read(path)
    kernel = str(notebook.metadata.get("kernelspec", {}).get("name") or "python3")
    if parameters:
        _check_parameters(path, notebook, parameters)
        _inject(notebook, parameters)
    return snapshot(notebook, Submitted(str(path.resolve()), "", dict(parameters), kernel))


def snapshot(notebook: NotebookNode, about: Submitted) -> Submitted:
    """Keep a notebook that has its parameters in it, as it is executed, without outputs.

    Parameters
    ----------
    notebook : NotebookNode
        It loses its outputs.
    about : Submitted
        All but the text.

    Raises
    ------
    NotebookUnusable
        Its kernel is not installed, or a parameter looks like a secret. Nothing was begun.
    """
    _check_kernel(about.path, about.kernel)
    _check_secrets(about.path, about.parameters)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return replace(about, text=str(nbformat.writes(notebook)))  # type: ignore[no-untyped-call]


def submitted_from(said: Mapping[str, Any]) -> Submitted:
    """Give what a record keeps of a run."""
    return Submitted(**{f.name: said[f.name] for f in fields(Submitted) if f.name in said})


def value_of(text: str) -> Any:
    """Give the value of a parameter on a command line: JSON where it is that, else the text."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except ValueError:
        return text


def _refuse_constant(name: str) -> None:
    """Refuse `NaN` and the infinities, which are no JSON: no name in Python means them either."""
    raise ValueError(name)


def _read(path: Path) -> NotebookNode:
    try:
        notebook: NotebookNode = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
        nbformat.validate(notebook)
    except FileNotFoundError:
        raise NotebookUnusable(str(path), "it is not there", "Is the path right?") from None
    except _UNREADABLE as problem:
        why = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        advice = "Open and save it in Jupyter, which repairs what can be repaired."
        raise NotebookUnusable(str(path), f"it is no notebook ({why})", advice) from problem
    return notebook


def _check_kernel(path: str, kernel: str) -> None:
    manager = KernelSpecManager()
    try:
        spec = manager.get_kernel_spec(kernel)
    except NoSuchKernel:
        known = ", ".join(sorted(manager.find_kernel_specs())) or "none"
        raise NotebookUnusable(
            path,
            f"its kernel {kernel!r} is not installed here",
            f"Installed: {known}. Install it, or choose another one in the notebook.",
        ) from None
    if spec.language.lower() != "python":
        raise NotebookUnusable(
            str(path),
            f"its kernel {kernel!r} is for {spec.language}, and a durable run needs Python",
            "Choose another kernel in the notebook.",
        )


def _check_parameters(path: Path, notebook: NotebookNode, given: Mapping[str, Any]) -> None:
    cell = _tagged(notebook, PARAMETERS)
    if cell is None:
        raise NotebookUnusable(
            str(path),
            "it takes no parameters",
            f'Tag the cell that assigns them with "{PARAMETERS}", or leave -p out.',
        )
    known = _assigned(cell.source)
    for name in given:
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise NotebookUnusable(
                str(path), f"it has no parameter {name!r}", f"Its parameters are: {listed}."
            )


def _check_secrets(path: str, given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        text = f"{name}={json.dumps(value)}"
        if values.redact(text) != text:
            raise NotebookUnusable(
                path,
                f"parameter {name!r} looks like a secret, and parameters are kept on disk",
                "Hand it over in the environment, and read it with os.environ in a cell.",
            )


def _tagged(notebook: NotebookNode, tag: str) -> NotebookNode | None:
    tagged: list[NotebookNode] = [
        cell
        for cell in notebook.cells
        if cell.cell_type == "code" and tag in cell.metadata.get("tags", ())
    ]
    return tagged[0] if tagged else None


def _assigned(source: str) -> set[str]:
    """Name what a cell of parameters assigns."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return set()
    found = set()
    for statement in tree.body:
        targets = (
            statement.targets
            if isinstance(statement, ast.Assign)
            else [statement.target]
            if isinstance(statement, ast.AnnAssign)
            else []
        )
        found |= {t.id for t in targets if isinstance(t, ast.Name)}
    return found


def _inject(notebook: NotebookNode, parameters: Mapping[str, Any]) -> None:
    """Put a cell that assigns the parameters after their defaults, or in place of an earlier one.

    A notebook that was executed with parameters has one already.
    """
    lines = [f"{name} = {value!r}" for name, value in parameters.items()]
    source = "\n".join(["# Parameters", *lines])
    made = nbformat.v4.new_code_cell(  # type: ignore[no-untyped-call]
        source, id=INJECTED, metadata={"tags": [INJECTED]}
    )
    earlier = _tagged(notebook, INJECTED)
    if earlier is not None:
        notebook.cells[notebook.cells.index(earlier)] = made
    else:
        notebook.cells.insert(notebook.cells.index(_tagged(notebook, PARAMETERS)) + 1, made)
