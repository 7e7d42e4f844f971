"""The demo's options, and help and documentation that cannot go stale."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import nbformat
import pytest
from support.terminal import ROOT, do, run_it

import durable_nb as dnb
from durable_nb import cli as commands

# -- the demo ----------------------------------------------------------------------------------


def test_a_missing_extra_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without nbclient the demo says what to install, and starts nothing."""
    monkeypatch.setitem(sys.modules, "nbclient", None)
    monkeypatch.delitem(sys.modules, "durable_nb.demo.runner", raising=False)
    result = do("demo")
    assert result.exit_code == 1
    assert "pip install 'durable-nb[demo]'" in result.stderr
    assert "Traceback" not in result.output


def test_the_demo_gets_its_options(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`demo` and `demo --lab` hand over the model, the folder, and where to print."""
    from durable_nb.demo import lab, runner

    calls: list[Mapping[str, Any]] = []
    monkeypatch.setattr(runner, "run_demo", lambda **given: calls.append(given))
    monkeypatch.setattr(lab, "run_lab", lambda **given: calls.append(given) or 0)
    assert do("demo", "--json", "--keep", tmp_path / "d").exit_code == 0
    assert do("demo", "--lab", "--model", "smollm2", "--keep", tmp_path / "d").exit_code == 0
    assert do("demo", "--lab", "--json").exit_code == 2
    assert do("demo", "--model", "gpt").exit_code == 2
    assert (calls[0]["model"], calls[0]["json"]) == ("scripted", True)
    assert calls[0]["console"].stderr
    assert (calls[1]["model"], calls[1]["folder"]) == ("smollm2", str(tmp_path / "d"))
    assert len(calls) == 2


# -- help and documentation --------------------------------------------------------------------


def everything() -> dict[str, click.Command]:
    return dict(commands.cli.commands)


@pytest.mark.parametrize("name", sorted(everything()))
def test_every_help_has_an_example_that_is_a_right_call(name: str) -> None:
    """`--help` teaches: its example parses."""
    shown = do(name, "--help")
    assert shown.exit_code == 0
    found = re.search(r"Example:\n    durable-nb (.+)", shown.stdout)
    assert found, shown.stdout
    words = shlex.split(found[1])
    command = everything()[words[0]]
    assert words[0] == name
    with command.make_context(name, words[1:]) as context:
        assert context.params


def test_the_help_of_all_explains_the_three_outcomes() -> None:
    """Each outcome has its line in `durable-nb --help`."""
    lines = do("--help").stdout.splitlines()
    for outcome in ("completed", "incomplete", "unknown"):
        assert sum(line.strip().startswith(outcome + " ") for line in lines) == 1
    assert dnb.__version__ in do("--version").stdout


def test_the_help_lists_all_commands_under_the_headings_of_the_documentation() -> None:
    """In the same order, so that who has read one finds what is meant in the other."""
    page = (ROOT / "docs" / "cli.md").read_text("utf-8")
    documented: dict[str, list[str]] = {}
    for level, title in re.findall(r"^(##|###) (.+)$", page, re.M):
        if level == "##":
            documented[title] = []
        else:
            documented[list(documented)[-1]] += re.findall(r"`durable-nb (.+)`", title)
    assert commands.cli.headings == documented
    shown = re.split(r"^([A-Z].*):\n", do("--help").stdout, flags=re.M)
    lists = dict(zip(shown[1::2], shown[2::2], strict=True))
    for title, names in documented.items():
        assert re.findall(r"^  (\S+)", lists[title], re.M) == names
    assert sorted(n for names in documented.values() for n in names) == sorted(everything())


SECTION = re.compile(r"^#+ +`?durable-nb (\S+?)`?\s*$(.*?)(?=^#+ |\Z)", re.M | re.S)
SHARED = ("--help", "--debug", "--store", "--json")


def undocumented(text: str, known: Mapping[str, click.Command]) -> list[str]:
    sections: dict[str, str] = {}
    for name, body in SECTION.findall(text):
        sections[name] = sections.get(name, "") + body
    missing = []
    for name, command in known.items():
        if name not in sections:
            missing.append(name)
            continue
        for parameter in command.params:
            for option in parameter.opts:
                where = text if option in SHARED else sections[name]
                if option.startswith("--") and not re.search(rf"`[^`\n]*{option}\b", where):
                    missing.append(f"{name} {option}")
    return missing


def written() -> str:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return "\n\n".join(page.read_text("utf-8") for page in pages if page.exists())


def test_every_command_and_option_is_documented() -> None:
    """README.md or docs/ has a section for each command, which names each of its options."""
    assert undocumented(written(), everything()) == []


def test_an_undocumented_command_or_option_is_noticed() -> None:
    """The test above can fail: a new command, a new option, and a lost section are seen."""
    new = click.Command("polish", params=[])
    assert undocumented(written(), {**everything(), "polish": new}) == ["polish"]
    more = click.Command("runs", params=[*everything()["runs"].params, click.Option(["--shine"])])
    assert undocumented(written(), {"runs": more}) == ["runs --shine"]
    without = re.sub(r"^#+ +`durable-nb deny`", "## nothing", written(), flags=re.M)
    assert undocumented(without, everything()) == ["deny"]


#: The chapter of docs/cli.md whose commands start kernels, and so are done in a test of their own.
EXECUTES = re.compile(r"^## Execute a notebook.*?(?=^## )", re.M | re.S)


def cli_page() -> str:
    return (ROOT / "docs" / "cli.md").read_text("utf-8")


def transcripts(text: str) -> list[tuple[str, str]]:
    """Give each command of a text with the output that stands below it."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", text, re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            line, _, output = part.partition("\n")
            while line.endswith("\\"):
                more, _, output = output.partition("\n")
                line = line[:-1] + more.strip()
            found.append((line, output))
    return found


def steady(text: str, folder: Path) -> str:
    """Take out what differs from one run to the next."""
    for pattern, word in (
        (re.escape(str(folder)), "/home/ada/shop"),
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(\+00:00)?", "TIME"),
        (r"dnb-[0-9a-f]{32}", "KEY"),
        (r"\b[0-9a-f]{32}\b", "ID"),
        (r"\([\d,]+ bytes\)", "(SIZE)"),
        (r"\b\d+(\.\d+)?( (ms|s|min)\b|% of the time)", "SPAN"),
        (r"in the body of \S+;", "in the body of OP;"),  # the longest of two that are over at once
    ):
        text = re.sub(pattern, word, text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def a_kernel_that_finds_a_change() -> None:
    """Come to the charge of refund-19 with another amount, so that there is something to keep."""

    def charge(order: str, amount: float) -> None:
        raise AssertionError("never run: it asks")

    with pytest.raises(dnb.IncompatibleCheckpoint), dnb.run("refund-19") as run:
        run.step(key="o-1").call(charge, "o-1", 12.75)


def kernels_that_wait() -> None:
    """Stop in refund-18 for two approvals and a signal."""
    for wait in (
        lambda run: run.approval("Send 40 mails?", {"list": "customers"}),
        lambda run: run.approval("Close the account?"),
        lambda run: run.wait_for("paid"),
    ):
        with pytest.raises((dnb.ApprovalPending, dnb.SignalPending)), dnb.run("refund-18") as run:
            wait(run)


def said(line: str) -> str:
    """Do a line of a transcript, with `; echo "exit $?"` at its end or not."""
    if line.startswith("rm "):
        Path(line.removeprefix("rm ")).unlink()
        return ""
    if line.startswith("durable-nb keep"):
        a_kernel_that_finds_a_change()
    if line.startswith("durable-nb approve") and "40 mails" in line:
        kernels_that_wait()
    call, asks, _ = line.partition('; echo "exit $?"')
    result = do(*shlex.split(call)[1:])
    assert asks or result.exit_code == 0, (line, result.output)
    return result.output + (f"exit {result.exit_code}\n" if asks else "")


def test_the_documented_output_is_the_real_output(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command of docs/cli.md, in order, prints what stands there."""
    monkeypatch.setattr("durable_nb.journal.folder.filesystem_warnings", lambda *_, **__: [])
    found = transcripts(EXECUTES.sub("", cli_page()))
    assert len(found) > 10
    for line, output in found:
        assert steady(said(line), store.parent) == steady(output, store.parent), line


def executed(line: str) -> str:
    """Do a line of a transcript in a process of its own, since it handles Ctrl-C itself."""
    call, asks, _ = line.partition('; echo "exit $?"')
    result = run_it(*shlex.split(call)[1:])
    assert asks or result.returncode == 0, (line, result)
    return result.stderr + result.stdout + (f"exit {result.returncode}\n" if asks else "")


@pytest.mark.slow
def test_the_documented_notebook_is_executed_as_documented(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The notebook that docs/cli.md shows, by the commands that it shows, prints what it shows."""
    (chapter,) = EXECUTES.findall(cli_page())
    (source,) = re.findall(r"```python\n(.*?)```", chapter, re.S)
    cells = [nbformat.v4.new_code_cell(cell) for cell in source.strip().split("\n\n")]
    cells[0].metadata["tags"] = ["parameters"]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "refunds.ipynb")
    monkeypatch.setenv("DURABLE_STORE", str(tmp_path / ".durable"))
    monkeypatch.chdir(tmp_path)
    found = transcripts(chapter)
    assert [line.split()[1] for line, _ in found] == ["run", "approve", "resume"]
    for line, output in found:
        assert steady(executed(line), tmp_path) == steady(output, tmp_path), line
