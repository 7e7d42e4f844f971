"""What is not as it was when a run was last executed: said before it goes on.

For information. What a recorded result depends on is compared by the run itself, at each step.
"""

from __future__ import annotations

import difflib
import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import nbformat
from jupyter_client.kernelspec import KernelSpecManager

from durable_nb.engine import packages
from durable_nb.engine.facets import FILE
from durable_nb.engine.files import MISSING, FileUnreadable, file_part
from durable_nb.engine.run import Run
from durable_nb.fleet.errors import NotebookUnusable, RunTaken
from durable_nb.fleet.notebooks import Submitted
from durable_nb.model.facets import ANY
from durable_nb.model.outcomes import RunStatus

#: For an interpreter that is not this one.
_ASK: Final = (
    "import json; from durable_nb.engine.packages import installed; print(json.dumps(installed()))"
)
_ASK_S: Final = 60
#: What a kernel spec may name that means: the interpreter of whoever starts it (jupyter_client).
_THIS: Final = frozenset({"python", "python3", "python{}.{}".format(*sys.version_info)})


def differences(run: Run, submitted: Submitted, before: Submitted | None) -> list[str]:
    """List what differs, a line each.

    Parameters
    ----------
    run : Run
        Held to look.
    submitted : Submitted
        What is to be executed now.
    before : Submitted or None
        What was executed before, as it is on record.
    """
    found = [] if before is None else _notebooks(before, submitted)
    recorded = run.fold.terms.get("packages")
    if recorded:
        now = packages_of(submitted)
        if differing := packages.differences(recorded, now):
            found.append(f"packages differ: {packages.in_a_line(differing)}")
    return [*found, *files_differing(run, submitted.works_in)]


def refuse_homeless(submitted: Submitted) -> None:
    """Refuse what has no folder to work in any more; raises `NotebookUnusable`."""
    folder = submitted.works_in
    if not folder.is_dir():
        raise NotebookUnusable(
            submitted.path,
            f"its folder {folder} is not there, and the kernel works in it",
            "Bring it back, or run the notebook from where it is now: "
            "durable-nb run NOTEBOOK --run NAME",
        )


def refuse_unwritable(output: Path | None) -> None:
    """Refuse an output that could not be written after hours; raises `NotebookUnusable`."""
    if output is None or (output.parent.is_dir() and os.access(output.parent, os.W_OK)):
        return
    advice = "Make the folder, or name another file with -o (output=)."
    raise NotebookUnusable(str(output), "the executed notebook cannot be written there", advice)


def refuse_another(run: str, before: Submitted | None, now: Submitted, status: str) -> None:
    """Refuse to go on with a run that executes something else.

    A notebook that moved is the same; one that changed is judged by the run, step by step.

    Raises
    ------
    RunTaken
        Nothing was begun.
    """
    if before is None:
        if status == RunStatus.FINISHED:
            raise RunTaken(run, "another notebook", "one that no supervisor has executed", now.path)
        return
    if before.parameters != now.parameters:
        raise RunTaken(run, "other parameters", dict(before.parameters), dict(now.parameters))
    if before.output and now.output and before.output != now.output:
        raise RunTaken(run, "another output", before.output, now.output)
    is_another = before.path != now.path and before.text != now.text
    if is_another and Path(before.path).exists():
        raise RunTaken(run, "another notebook", before.path, now.path)


def packages_of(submitted: Submitted) -> dict[str, str]:
    """Give what is installed where the kernel will run.

    Raises
    ------
    NotebookUnusable
        The kernel's interpreter has no durable_nb, or does not start. Nothing was begun.
    """
    return in_kernel(submitted, _ASK, (), packages.installed)


def in_kernel(
    submitted: Submitted, code: str, given: Sequence[str], here: Callable[[], dict[str, str]]
) -> dict[str, str]:
    """Find out about packages where the kernel will run.

    Parameters
    ----------
    submitted : Submitted
        Whose kernel.
    code : str
        Prints the answer, as JSON.
    given : sequence of str
        Its arguments.
    here : callable
        Gives the same, where the kernel's interpreter is this one.

    Raises
    ------
    NotebookUnusable
        The kernel's interpreter has no durable_nb, or does not start. Nothing was begun.
    """
    spec = KernelSpecManager().get_kernel_spec(submitted.kernel)
    program = spec.argv[0]
    if program in _THIS or os.path.realpath(program) == os.path.realpath(sys.executable):
        return here()
    environment = {**os.environ, **spec.env}
    try:
        done = subprocess.run(
            [program, "-c", code, *given],
            capture_output=True, text=True, env=environment, timeout=_ASK_S, check=True,
        )  # fmt: skip
        found: dict[str, str] = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as problem:
        said = (getattr(problem, "stderr", None) or str(problem)).strip().splitlines()
        raise NotebookUnusable(
            submitted.path,
            f"its kernel {submitted.kernel!r} cannot say what is installed ({said[-1]})",
            f"Install durable-nb for {program}, or choose another kernel in the notebook.",
        ) from problem
    return found


def _notebooks(before: Submitted, now: Submitted) -> list[str]:
    """Tell that the notebook moved, and which of its cells are not what they were."""
    moved = f"the notebook has moved: {before.path} -> {now.path}"
    found = [moved] if before.path != now.path else []
    if before.text == now.text:
        return found
    old, new = _sources(before.text), _sources(now.text)
    counts: Counter[str] = Counter()
    for tag, i, j, k, m in difflib.SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes():
        if tag != "equal":
            both = min(j - i, m - k)
            counts.update({"changed": both, "gone": j - i - both, "new": m - k - both})
    told = ", ".join(f"{n} cell{'s' * (n > 1)} {name}" for name, n in counts.items() if n)
    return [*found, f"the notebook is not what it was: {told}"] if told else found


def _sources(text: str) -> list[str]:
    notebook = nbformat.reads(text, as_version=4)  # type: ignore[no-untyped-call]
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def files_differing(run: Run, folder: Path) -> list[str]:
    """List the files that steps have declared and that hold nothing any step has seen or made."""
    known: dict[str, dict[str, str]] = defaultdict(dict)
    for facets in run.fold.known.values():
        for name, part in facets.parts.items():
            if name.startswith(FILE):
                known[name.removeprefix(FILE)][part.digest] = part.shown
    operations = run.fold.operations
    for state in operations.values() if known else operations.folded():
        for path, (digest, shown) in state.basis.get("produced", {}).items():
            known[path][digest] = shown
    found = []
    for path, seen in sorted(known.items()):
        if ANY in seen:
            continue
        try:
            part = file_part(folder / path)
        except FileUnreadable as problem:
            found.append(f"file {path} cannot be read: {problem.why}")
            continue
        if part.digest not in seen:
            how = f"differs: {list(seen.values())[-1]} -> {part.shown}"
            found.append(f"file {path} {'is gone' if part.digest == MISSING else how}")
    return found
