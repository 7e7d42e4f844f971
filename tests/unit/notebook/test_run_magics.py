"""`%durable` and what loading the extension does and does not do."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

import durable_nb as dnb
from durable_nb.engine.questions import Question
from durable_nb.engine.recovery import doubt as doubt_of
from durable_nb.engine.tree import StatusRow
from durable_nb.engine.views import StatusView
from durable_nb.notebook.display import Shown, status_html
from durable_nb.notebook.origin import ipython_origin


def doubt(notebook) -> None:
    notebook.ok("%durable run job")
    assert not notebook.run("%%durable pay\nx = 1 / 0").ok


@pytest.mark.slow
def test_loading_lists_unfinished_runs_and_opens_none(notebook, capsys):
    """Case 25: resuming is offered, never begun."""
    doubt(notebook)
    notebook.restart()
    dnb.unload_ipython_extension(notebook.shell)
    before = dnb.runs()["updated"].tolist()

    shown = notebook.ok("%load_ext durable_nb")

    assert "job · " in shown.out
    assert "1 unknown" in shown.out
    assert "nothing was started" in shown.out
    assert "%durable run job" in shown.out
    assert "run" not in notebook.names
    assert dnb.current_run() is None
    assert dnb.runs()["updated"].tolist() == before


def test_loading_twice_is_loading_once_and_unloading_takes_everything_away(notebook):
    """The extension leaves nothing behind, and a durable cell then does not run."""
    shell = notebook.shell
    dnb.load_ipython_extension(shell)
    assert [type(t).__name__ for t in shell.ast_transformers].count("Wrapper") == 1
    assert len(shell.input_transformers_cleanup) == len(set(shell.input_transformers_cleanup))

    dnb.unload_ipython_extension(shell)

    assert "Wrapper" not in [type(t).__name__ for t in shell.ast_transformers]
    done = notebook.run("%%durable cell\nran = True")
    assert not done.ok
    assert "ran" not in notebook.names
    dnb.unload_ipython_extension(shell)


@pytest.mark.slow
def test_run_binds_the_variable_and_shows_what_is_restored_and_open(notebook):
    """`%durable run` prints what the record holds and the line that settles what is open."""
    doubt(notebook)
    notebook.restart()

    shown = notebook.ok("%durable run job")

    assert notebook.names["run"].name == "job"
    assert "resumed" in shown.out
    assert "? pay#1" in shown.out
    assert 'run.deny("pay#1", evidence="...")' in shown.out


def test_run_leaves_a_variable_of_the_users_alone(notebook):
    """A name that is taken is not overwritten; the run is active all the same."""
    notebook.ok("def run(): return 'mine'")

    shown = notebook.ok("%durable run job")

    assert notebook.names["run"]() == "mine"
    assert "is taken" in shown.out
    assert dnb.current_run().name == "job"
    notebook.ok("%%durable cell --effect none\nx = 1")


def test_verdicts_can_be_typed_with_literals_names_and_row_numbers(notebook):
    """Results are Python; operations go by id, name or row."""
    doubt(notebook)
    notebook.ok("answer = [1, 2]")
    shown = notebook.ok("""%durable confirm pay#1 {"x": answer[1]} --evidence "seen # there" """)
    assert "confirmed" in shown.out
    run = notebook.names["run"]
    assert run.get("pay#1").result == {"x": 2}
    assert "seen # there" in run.history("pay#1")["detail"].iloc[-1]

    shown = notebook.ok("%durable invalidate 1 --reason 'wrong sum' --effect compensated")
    assert "pay#1" in shown.out
    assert run.get("pay#1").outcome == "incomplete"

    assert not notebook.run("%%durable pay\nx = 1 / 0").ok
    notebook.ok("%durable deny pay --evidence=nothing")
    assert run.get(1).outcome == "incomplete"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            "frobnicate",
            "verbs are run, status, panel, runs, confirm, deny, history, invalidate, keep",
        ),
        ("run", "needs one name"),
        ("run a b", "needs one name"),
        ("run ../x", "cannot be the name of a run"),
        ("confirm", "needs an operation and its result"),
        ("confirm pay#1", "needs an operation and its result"),
        ("confirm pay#1 not there", "Text needs quotes"),
        ("confirm nothing#1 5", "no operation"),
        ("deny", "one operation, please"),
        ("invalidate pay#1", "needs --reason"),
        ("invalidate pay#1 --reason r --effect gone", "stands or compensated"),
        ("status other", "no run 'other' in"),
        ("deny pay#1 --run other", "no run 'other' in"),
        ("accept", "needs --reason"),
        ("keep", "one operation, please"),
        ("keep pay#1", "cannot keep"),
        ("grant", "needs what and why"),
        ("grant a:b", "needs what and why"),
        ("grant --usd much --reason r", "it is a number"),
        ("grant --usd 5 --reason r", "cannot grant"),
        ("compensate", "one operation, please"),
        ("compensate pay#1", "cannot compensate"),
        ("facets nothing#1", "no operation"),
    ],
)
def test_a_wrong_line_says_what_to_type_and_changes_nothing(notebook, line, says):
    """Errors of the magic are usage errors: one line, an example, and nothing was changed."""
    doubt(notebook)
    before = notebook.names["run"].history().shape

    done = notebook.run(f"%durable {line}")

    assert not done.ok
    assert says in done.out
    assert "Traceback" not in done.out
    assert notebook.names["run"].history().shape == before


def test_without_a_run_the_magics_and_cells_say_how_to_open_one(notebook):
    """There is never a silent new run."""
    for source in ("%durable status", "%%durable cell\nx = 1", "%durable deny 1"):
        done = notebook.run(source)
        assert not done.ok
        assert "Open one" in done.out
        assert "x" not in notebook.names


def test_help_shows_both_magics(notebook):
    """`%durable help`, and `%durable` alone, teach."""
    for source in ("%durable help", "%durable"):
        shown = notebook.ok(source)
        assert "%%durable NAME" in shown.out
        assert "%durable confirm OP RESULT" in shown.out


def test_signals_are_five_lines_without_a_traceback(notebook):
    """A stop that a person has to settle is shown as what to do, and the cell counts as failed."""
    doubt(notebook)

    done = notebook.run("%%durable pay\nx = 1 / 0")

    assert not done.ok
    assert len(done.out.strip().splitlines()) == 5
    assert done.out.strip().endswith('run.deny("pay#1", evidence="...")')


class _Checker(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        assert all(not name.startswith("on") for name, _ in attrs)

    def handle_data(self, data):
        self.text += data


def test_the_html_of_a_status_says_what_the_text_says_and_escapes_all_of_it():
    """Names, notes and lines come from users and models, so none of them may be markup."""
    evil = "<script>alert(1)</script>\"'&"
    row = StatusRow(1, "?", "unknown", None, evil, evil)
    view = StatusView(
        run=evil,
        status="waiting",
        headline=evil,
        counts={"completed": 1, "incomplete": 2, "unknown": 3},
        rows=(row,),
        questions=(Question(evil, "adopt"),),
        restored=4,
        usd=1.5,
        at_least=True,
    )

    checker = _Checker()
    checker.feed(status_html(view))

    assert "script" not in checker.tags
    assert checker.text.count("<script>alert(1)</script>") == 6
    assert "at least $1.50" in checker.text
    assert "1 completed, 2 incomplete, 3 unknown" in checker.text
    assert "4 from record" in checker.text
    assert repr(Shown(view)) == view.to_text()


def test_panel_is_html_with_a_text_form(notebook):
    """A reopened notebook shows the table without any kernel."""
    notebook.ok("%durable run job")
    notebook.ok("%%durable cell --effect none\nx = 1")

    shown = Shown(notebook.names["run"].status_view())

    data, _ = notebook.shell.display_formatter.format(shown)
    assert "<table" in data["text/html"]
    assert "✔ cell#1" in data["text/plain"]


def test_an_origin_is_the_same_within_one_execution_and_differs_between_two(notebook):
    """Silent and repeated executions count; outside of IPython there is no origin."""
    notebook.names["origin"] = ipython_origin
    notebook.ok("%durable run job")
    notebook.ok("a = origin(); b = origin()")
    notebook.shell.run_cell("c = origin()", silent=True)
    notebook.shell.run_cell("d = origin()", store_history=False)
    notebook.ok("a2 = origin(); b = origin()")
    names = notebook.names

    assert names["a"].cell != names["a2"].cell
    executions = [names[n].execution for n in ("a", "c", "d", "a2")]
    assert len(set(executions)) == 4
    assert not names["a"].has_id


@pytest.mark.slow
def test_a_run_of_the_store_that_is_not_open_here_is_watched_and_settled(notebook):
    """`--run NAME` and a name after `status` reach a run that this kernel does not hold."""
    doubt(notebook)
    notebook.names["run"].close()
    status = notebook.run("%durable status job")
    assert "run job · waiting · 0 completed, 0 incomplete, 1 unknown" in status.out
    told = notebook.run("%durable deny pay --run job --evidence 'not in the ledger'")
    assert told.ok, told.out
    assert 'run = durable_nb.watch("job")' in status.out
    assert "pay#1: denied" in told.out
    assert "1 incomplete, 0 unknown" in notebook.run("%durable status job").out
    records = notebook.run("%durable history pay --run job")
    assert "denied" in str(records.displays or records.out)


def test_a_change_is_decided_and_a_loss_accepted_from_a_line(notebook):
    """Every action of the panel is a magic, too."""
    notebook.ok("%durable run job")
    notebook.ok('run.step("plan", effect="none", on_change="ask").call(len, "ab")')
    notebook.ok("run.close()")
    notebook.ok("%durable run job")
    changed = notebook.run('run.step("plan", effect="none", on_change="ask").call(len, "abc")')
    assert not changed.ok
    assert "its record is kept" in notebook.run("%durable keep plan --reason fine").out
    assert "done again" in notebook.run("%durable rerun plan --reason better").out
    refused = notebook.run("%durable accept --reason seen")
    assert not refused.ok
    assert "none of its records is lost" in refused.out
    notebook.names["run"].append(doubt_of("records 7 to 9 are gone"))
    assert "it goes on" in notebook.ok("%durable accept --reason seen").out
    assert not notebook.names["run"].fold.doubted


def test_scopes_and_money_are_granted_from_a_line(notebook):
    """What a run may do and spend is widened where its person sits."""
    notebook.ok("import durable_nb as dnb\nrun = dnb.open_run('job', budget={'usd': 1})")
    notebook.ok("def pay(): return 1")
    refused = notebook.run("run.step(requires=['pay:write']).call(pay)")
    assert "ScopeDenied" in refused.out
    granted = notebook.ok("%durable grant pay:write --usd 2.5 --reason 'the customer asked'")
    assert "granted pay:write, usd 2.5" in granted.out
    run = notebook.names["run"]
    assert run.scopes == ("pay:write",)
    assert run.budget["usd"] == 2.5
    notebook.ok("run.step(requires=['pay:write']).call(pay)")


def test_a_run_is_paused_and_let_go_on_from_a_line(notebook):
    """Also the run of another name, and after a restart; a wrong call changes nothing."""
    notebook.ok("%durable run job")
    told = notebook.ok('%durable pause --reason "the shop moves"')
    assert "run job: paused" in told.out
    stopped = notebook.run("run.step('pay', effect='none').call(str, 1)")
    assert "RunPaused: pay#1 in run 'job' was not started: the run is paused." in stopped.out
    assert "it is paused (the shop moves) already" in notebook.run("%durable pause").out
    assert "it is the run, not pay#1" in notebook.run("%durable unpause pay#1").out
    notebook.restart()
    shown = notebook.ok("%durable run job").out
    assert "run job is paused (the shop moves): nothing new begins in it" in shown
    status = notebook.ok("%durable status").out
    assert "paused (the shop moves): go on?\n    run.unpause()" in status
    assert "it goes on" in notebook.ok("%durable unpause --run job").out
    notebook.ok("run.step('pay', effect='none').call(str, 1)")
    assert "it is not paused" in notebook.run("%durable unpause").out


def test_an_effect_is_taken_back_from_a_line(notebook):
    """The function of the step is called; an async one is left to a cell."""
    notebook.ok("%durable run job")
    notebook.ok("undone = []\ndef undo(op): undone.append(op.result)\ndef pay(): return 'p-1'")
    notebook.ok("run.step(compensate=undo).call(pay)")
    told = notebook.ok("%durable compensate pay --reason 'wrong customer'")
    assert "pay#1: its effect was taken back" in told.out
    assert notebook.names["undone"] == ["p-1"]
    notebook.ok("async def later(op): undone.append(2)")
    notebook.ok("run.step('send', compensate=later).call(pay)")
    refused = notebook.run("%durable compensate send")
    assert not refused.ok
    assert 'await run.compensate("send")' in refused.out
    assert notebook.names["undone"] == ["p-1"]
    assert notebook.names["run"].get("send").outcome == "completed"


def test_what_a_result_depends_on_is_a_table(notebook):
    """Also what is reached and not compared."""
    notebook.ok("%durable run job")
    notebook.ok("import json\nRATE = 3\ndef pay(x): return json.dumps(x * RATE)")
    notebook.ok("run.step(effect='none').call(pay, 2)")
    (table,) = notebook.ok("%durable facets pay").displays
    assert "constant RATE" in str(table)
    assert "module json" in str(table)


@pytest.mark.slow
def test_a_run_is_forked_from_a_line(notebook):
    """It says what was copied; the active run stays the one that it is."""
    notebook.ok("%durable run job")
    notebook.ok("def pay(): return 'p-1'\nrun.call(pay)")
    told = notebook.ok("%durable fork what-if --at pay#1 --reason 'another way'")
    assert "run what-if is a fork of job, as it stood before pay#1" in told.out
    assert notebook.names["run"].name == "job"
    for line, said in (
        ("%durable fork", "needs one name"),
        ("%durable fork what-if", "already"),
        ("%durable fork more --at nail", "nail"),
    ):
        refused = notebook.run(line)
        assert not refused.ok
        assert said in refused.out


# -- what ends a wait --------------------------------------------------------------------------


@pytest.mark.slow
def test_a_durable_cell_stops_for_an_approval_and_goes_on_once_it_is_given(notebook):
    """Case 3: the cell stays incomplete, its finished steps replay, and the magic decides."""
    notebook.ok("%durable run job\nsent = []")
    cell = (
        "%%durable mails\n"
        "count = run.step('collect', effect='none').call(len, 'abc')\n"
        "said = run.approval('Send them all?', {'count': count})\n"
        "got = run.wait_for('go')"
    )
    stopped = notebook.run(cell)
    assert not stopped.ok
    assert notebook.names["run"].get("mails#1").outcome == "incomplete"
    op = "mails#1/approval[Send them all?]#1"
    assert op in notebook.ok("%durable status").out

    assert "approved" in notebook.ok(f"%durable approve {op} --reason fine").out
    assert not notebook.run(cell).ok
    assert "signalled; it gets [1, 2]" in notebook.ok("%durable signal go [1, 2]").out
    notebook.ok(cell)

    assert notebook.names["said"]["reason"] == "fine"
    assert notebook.names["got"] == [1, 2]
    assert len(notebook.names["run"].history("mails#1/collect#1")) == 2


def test_the_magics_that_end_a_wait_ask_for_what_is_missing(notebook):
    """A reason to reject; a name to signal, in quotes where it has spaces."""
    notebook.ok("%durable run job")
    assert not notebook.run("run.approval('Go on?')").ok
    for line in ("%durable reject 'approval[Go on?]#1'", "%durable signal", "%durable approve"):
        assert not notebook.run(line).ok
    assert "held" in notebook.ok("%durable signal 'the mail' 5").out
    assert "rejected" in notebook.ok("%durable reject 'approval[Go on?]#1' --reason no").out
    notebook.ok("got = run.wait_for('the mail')")
    assert notebook.names["got"] == 5
