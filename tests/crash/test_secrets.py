"""Keys are planted wherever a run is told something; then every byte of its folder is searched."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from support.child import Bench
from support.folders import stored

import durable_nb as dnb
from durable_nb.cli import cli
from durable_nb.journal import FolderPlace, Inbox

pytestmark = pytest.mark.slow  # together they take longer than all the rest

#: Where it is planted -> the key; all different, so that what is found says where it leaked.
KEYS = {
    "positional": "sk-proj-aaaaBBBB10cccc",
    "keyword": "sk-ant-api03-aaaaBBBB11cccc",
    "by name": "hunter12hunter",
    "nested": "ghp_aaaaBBBBccccDDDD13",
    "field": "fieldhunter14",
    "client": "AKIAABCDEFGHIJKLMN15",
    "repr": "xoxb-1234-aaaabbbb16",
    "inputs": "AIzaSyAaaaaBBBBccccDDDDeeeeFFFF17gg",
    "message": "sk-TESTmessage18",
    "cause": "sk-TESTcause19",
    "args": "sk-TESTargs20",
    "body": "bodyhunter21",
    "source line": "sk-TESTsource22",
    "note": "sk-TESTnote23",
    "group": "sk-TESTgroup24",
    "evidence": "eyJhbGciOiJI.eyJzdWIiOiIx25aaaa.sign25",
    "denied": "dbhunter26",
    "reason": "glpat-aaaabbbbccccdddd27",
    "reconciled": "sk-TESTreconciled28",
    "undecided": "sk-TESTundecided29",
    "name": "sk-TESTname30",
    "key": "sk-TESTkey31",
    "private": "MIIprivate32",
}

STORY = """
from dataclasses import dataclass

KEYS = GivenKeys(json.loads(more[0]))
mode = more[1]

class Client:
    def __init__(self, key):
        self.api_key = key
    def __repr__(self):
        return f"Client(key={KEYS['repr']!r})"

@dataclass
class Config:
    url: str
    api_key: str

def ask(question, positional, config, *, keyword, password, nested):
    ledger.add("ask")
    if mode == "die":
        die()
    return "an answer"

def plain(question):
    return question

def fail(how):
    if how == "message":
        raise RuntimeError(f"401: bad key {KEYS['message']}", f"sent {KEYS['args']}")
    if how == "cause":
        try:
            raise ValueError(f"Authorization: Bearer {KEYS['cause']}")
        except ValueError as cause:
            raise KeyError("outer") from cause
    if how == "body":
        raise OSError(f'HTTP 400: {{"error": "bad request", "request": {{"api_key": "{KEYS["body"]}"}}}}')
    if how == "source":
        exec(compile(source, str(store.parent / "leaky.py"), "exec"))
    error = ExceptionGroup("many", [ValueError(KEYS["group"])])
    error.add_note(KEYS["note"])
    raise error

source = f'key = "{KEYS["source line"]}"; raise LookupError("no")\\n'
(store.parent / "leaky.py").write_text(source)

def settle(op):
    if op.key == "happened":
        return dnb.Happened("sent", f"provider said {KEYS['reconciled']}")
    return dnb.Undecided(f"cannot tell, {KEYS['undecided']}")

def send(how):
    raise TimeoutError("who knows")

def doubtful(run, how, **options):
    try:
        run.step("send", key=how, **options).call(send, how)
    except dnb.UnknownOutcome:
        pass

with dnb.run("keys", store=store) as run:
    nested = {"deep": [{"authorization": "Bearer " + KEYS["nested"]}, KEYS["nested"]],
              "pem": "-----BEGIN PRIVATE KEY-----\\n" + KEYS["private"] + "\\n-----END PRIVATE KEY-----"}
    tell(asked=run.call(ask, "q", KEYS["positional"], Config("u", KEYS["field"]), keyword=KEYS["keyword"],
        password=KEYS["by name"], nested=nested))
    client = Client(KEYS["client"])
    try:
        run.call(plain, client)
    except TypeError as refused:
        tell(refused=str(refused))
    run.step("plain", key="client", inputs={"client": repr(client), "at": KEYS["inputs"]}).call(plain, 1)
    for how in ("message", "cause", "body", "source", "group"):
        try:
            run.step("fail", key=how, effect="none").call(fail, how)
        except Exception as problem:
            pass
    for what, options in {"name": {"name": KEYS["name"]}, "key": {"name": "x", "key": KEYS["key"]}}.items():
        try:
            name = options.pop("name")
            run.step(name, **options).call(plain, 1)
        except dnb.BadName as refused:
            tell(**{what: str(refused)})
    doubtful(run, "happened", reconcile=settle)
    doubtful(run, "undecided", reconcile=settle)
    run.deny("send[undecided]", evidence=f"db password={KEYS['denied']}")
    run.invalidate("send[happened]", f"sent with {KEYS['reason']}", effect="stands")
    doubtful(run, "person")
    run.confirm("send[person]", "sent", evidence=f"its answer had {KEYS['evidence']}")
    tell(outcomes=outcomes(run))
    if mode == "die at the end":
        die()
"""


def everything_in(folder: Path) -> Iterator[tuple[str, str]]:
    """Give each file as it is, and each place where text may be compressed, decoded."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path.name, path.read_bytes().decode("latin-1")
        if path.suffix == ".parquet":
            table = pq.read_table(path)
            yield f"{path.name} decoded", f"{table.to_pylist()} {table.schema.metadata}"
    for row in stored(folder):
        yield (
            f"record {row.seq} {row.op} {row.kind}",
            f"{row.op} {row.body.decode()} {json.loads(row.body)}",
        )


def leaks(folder: Path, keys: dict[str, str]) -> list[tuple[str, str]]:
    texts = list(everything_in(folder))
    assert any("INTENDED" in name.upper() for name, _ in texts)
    return [(where, name) for where, text in texts for name, key in keys.items() if key in text]


@pytest.fixture
def keys() -> dict[str, str]:
    return KEYS


@pytest.mark.parametrize("mode", ["close", "die", "die at the end"])
def test_case_74_no_planted_key_is_anywhere_in_the_folder(
    bench: Bench, keys: dict[str, str], mode: str
) -> None:
    """Inputs, errors, verdicts and names leave no key behind, at whatever moment the kernel dies."""
    ended = bench.run(STORY, json.dumps(keys), mode)
    folder = bench.store / "keys"
    assert leaks(folder, keys) == []
    assert folder.stat().st_mode & 0o777 == 0o700
    if mode == "die":
        assert ended.killed
        seen = bench.run(STORY, json.dumps(keys), "resume").facts
        assert "asked" not in seen  # in doubt
        assert leaks(folder, keys) == []
        return
    seen = ended.facts
    assert seen["asked"] == "an answer"
    assert "no digest" in seen["refused"]
    for what in ("name", "key"):
        assert keys[what] not in seen[what]
        assert "looks like a secret" in seen[what]
    assert seen["outcomes"]["send[person]#1"] == "completed"
    assert seen["outcomes"]["fail[cause]#1"] in {"completed", "incomplete"}
    assert not any(key in ended.err for key in keys.values())
    for args in (["show", "keys"], ["show", "keys", "--json"], ["history", "keys", "--json"]):
        shown = CliRunner().invoke(cli, [*args, "--store", str(bench.store)])
        assert shown.exit_code in {0, 3}, shown.output
        assert not any(key in shown.output for key in keys.values()), args


def test_case_74_what_is_redacted_can_still_be_read(bench: Bench, keys: dict[str, str]) -> None:
    """Around a key, inputs, errors and evidence say what they said."""
    bench.run(STORY, json.dumps(keys), "close").ok()
    with dnb.run("keys", store=bench.store) as run:
        ask = run.get("ask").inputs
        errors = {v.key: v.error for v in run.status_view().views if v.name == "fail"}
        details = "\n".join(run.history()["detail"])
    assert ask["question"] == "'q'"
    assert ask["password"] == "[redacted]"
    assert ask["config"] == "Config(url='u', api_key=[redacted])"
    assert errors["message"].startswith(
        "RuntimeError: ('401: bad key [redacted]', 'sent [redacted]')"
    )
    assert '"error": "bad request"' in errors["body"]
    assert "provider said [redacted]" in details
    assert "db password=[redacted]" in details
    assert "sent with [redacted]" in details


# -- messages ----------------------------------------------------------------------------------


def test_case_74_a_message_in_the_inbox_holds_no_key(
    bench: Bench, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another process says of a held run is redacted before it lies in the folder."""
    from durable_nb.engine import remote

    (bench.store / "held").mkdir(parents=True, mode=0o700)
    monkeypatch.setattr(Inbox, "withdraw", lambda *_: False)
    said = {"evidence": f"it said {keys['evidence']}", "reason": f"password={keys['denied']}"}
    remote.settle_live(FolderPlace(bench.store / "held"), "confirm", "send", said, timeout_s=0)
    (message,) = (bench.store / "held" / "inbox").glob("*.json")
    text = message.read_text()
    assert "it said [redacted]" in text
    assert not any(key in text for key in keys.values())


# -- a durable cell ----------------------------------------------------------------------------

CELL = '''
from IPython.core.interactiveshell import InteractiveShell

KEYS = GivenKeys(json.loads(more[0]))
shell = InteractiveShell.instance()

def cell(source):
    done = shell.run_cell(source, store_history=True)
    problem = done.error_before_exec or done.error_in_exec
    tell(**{f"problem {len(source)}": repr(problem)} if problem else {})

shell.user_ns.update(dnb=dnb, where=store, KEYS=KEYS, sys=sys)
cell("%load_ext durable_nb")
cell('run = dnb.open_run("cells", store=where)')
cell("""%%durable shows --effect none
print("stdout", KEYS["positional"])
print("password=" + KEYS["by name"])
print("stderr", KEYS["keyword"], file=sys.stderr)
from IPython.display import HTML, display
display(HTML("<b>" + KEYS["nested"] + "</b>"))
display({"text/plain": KEYS["client"], "text/markdown": KEYS["repr"]}, raw=True)
shown = 5
"last " + KEYS["inputs"]""")
cell("""%%durable fails --effect none
raise RuntimeError(KEYS["message"])""")
shell.user_ns["run"].close()
tell(done=True)
'''


def test_case_74_what_a_durable_cell_shows_is_kept_without_keys(
    bench: Bench, keys: dict[str, str]
) -> None:
    """Streams, displays, the last expression and the error of a cell are redacted in the record."""
    ended = bench.run(CELL, json.dumps(keys)).ok()
    assert ended.facts["done"]
    assert keys["positional"] in ended.out  # live, a cell shows what it printed
    assert leaks(bench.store / "cells", keys) == []
    with dnb.run("cells", store=bench.store) as run:
        outputs = json.dumps(run.get("shows").result["outputs"])
    for said in ("stdout [redacted]", "stderr [redacted]", "<b>[redacted]</b>", "last [redacted]"):
        assert said in outputs


# -- results -----------------------------------------------------------------------------------

RESULT = """
key = str(more[0])

def make(n):
    return {"config": {"url": "u", "key": key}, "n": n}

def large():
    return ["x" * 100_000, {"log": "y" * 70_000 + " " + key}]

def kept_out():
    return {"key": key, "id": 7}

with dnb.run("results", store=store) as run:
    made = [run.step("make", key=n, effect="none").call(make, n) for n in range(3)]
    big = run.step("large", effect="none").call(large)
    out = run.step("kept_out", effect="none", record=lambda r: r["id"]).call(kept_out)
    tell(equal=[made == [make(n) for n in range(3)], big == large()], out=out)
"""


def test_case_74_a_result_is_kept_as_it_is_and_a_key_in_it_is_told_once(bench: Bench) -> None:
    """A result is never altered; a line names the step and the path, and `record=` keeps it out."""
    key = "sk-proj-aaaaBBBB99cccc"
    for attempt in range(2):
        ended = bench.run(RESULT, key).ok()
        assert ended.facts == {"equal": [True, True], "out": 7}
        told = [line for line in ended.err.splitlines() if "looks like a secret" in line]
        assert key not in ended.err
        if not attempt:
            assert [line.split(" holds ")[0] for line in told] == [
                "warning: make[0]#1: result['config']['key']",
                "warning: large#1: result[1]['log']",
            ]
            assert all("record= keeps it out" in line for line in told)
        else:
            assert told == []  # nothing was recorded
    found = leaks(bench.store / "results", {"key": key})
    assert found  # it is the user's data
    assert not any("kept_out" in where or "parquet" in where for where, _ in found)
