"""What a cell leaves behind, and that a new kernel gets it back."""

from __future__ import annotations

import pickle

import pytest

import durable_nb as dnb
from durable_nb.notebook.errors import NamesNotRecordable, SharedWithEarlierCell

NONE = "%%durable cell --effect none"


def twice(notebook, body: str, *before: str, line: str = NONE):
    """Run a cell, restart, and run everything again; give the second showing."""
    for source in before:
        notebook.ok(source)
    notebook.ok(f"{line}\n{body}")
    notebook.restart()
    notebook.ok("%durable run job")
    for source in before:
        notebook.ok(source)
    return notebook.ok(f"{line}\n{body}")


@pytest.mark.slow
def test_new_rebound_deleted_and_changed_names_come_back_and_the_body_does_not_run(opened):
    """A replay restores the difference that the cell made to the namespace."""
    body = "runs.write_text(runs.read_text() + 'x')\nnew = {'a': (1, 2)}\nold = 2\ndel gone\nlog.append(1)"
    opened.ok("import pathlib; runs = pathlib.Path('runs'); runs.write_text('')")

    twice(opened, body, "import pathlib; runs = pathlib.Path('runs'); old = 1; gone = 1; log = [0]")

    names = opened.names
    assert names["runs"].read_text() == "x"
    assert (names["new"], names["old"], names["log"]) == ({"a": (1, 2)}, 2, [0, 1])
    assert "gone" not in names
    assert "__durable_cell__" not in names


@pytest.mark.slow
def test_references_that_names_share_survive(opened):
    """All names are one value, so that two names for one list stay two names for one list."""
    twice(opened, "a = [1]\nb = {'a': a}\nc = a")

    names = opened.names
    assert names["c"] is names["a"]
    assert names["b"]["a"] is names["a"]


def test_an_object_changed_through_a_function_of_the_notebook_is_noticed(opened):
    """Names that a called function reads are watched like those of the cell itself."""
    note = "log = []\ndef note(x):\n    log.append(x)"

    twice(opened, "note(5)", note)

    assert opened.names["log"] == [5]


def test_a_changed_object_stays_shared_with_a_name_that_the_cell_made(opened):
    """A mutation is recorded with the cell's other values."""
    twice(opened, "last = log\nlog.append(1)", "log = []")

    assert opened.names["last"] is opened.names["log"]
    assert opened.names["log"] == [1]


def test_a_name_for_an_object_of_an_earlier_cell_stays_that_object(opened):
    """A loop variable or a pick is found again where it was, and not copied."""
    shown = twice(
        opened,
        "for order in orders:\n    pass\nfirst = by['a'].items[0]\nwhole = orders",
        "class O: pass",
        "orders = [{'n': 1}, {'n': 2}]\no = O(); o.items = [[7]]\nby = {'a': o}",
    )

    names = opened.names
    assert names["order"] is names["orders"][1]
    assert names["first"] is names["by"]["a"].items[0]
    assert names["whole"] is names["orders"]
    assert "from record" in shown.out


@pytest.mark.slow
def test_a_name_for_an_object_that_changed_meanwhile_is_refused(opened):
    """An alias must lead to an equal object, else the replay would not be what was recorded."""
    opened.ok("orders = [{'n': 1}]")
    opened.ok(f"{NONE}\npick = orders[0]")
    opened.restart()
    opened.ok("%durable run job\norders = [{'n': 9}]")

    done = opened.run(f"{NONE} --on-change keep\npick = orders[0]")

    assert not done.ok
    assert "orders[0]" in done.out


def test_objects_of_earlier_cells_inside_new_ones_stay_those_objects(opened):
    """What a result holds of an earlier cell is pointed to in the record, not copied."""
    body = (
        "results = [(order, order['n'] * 2) for order in orders]\n"
        "by = {'all': orders, 'own': [1]}\nagain = by['own']"
    )
    twice(opened, body, "orders = [{'n': 1}, {'n': 2}]")

    names = opened.names
    assert [n for _, n in names["results"]] == [2, 4]
    assert names["results"][1][0] is names["orders"][1]
    assert names["by"]["all"] is names["orders"]
    assert names["again"] is names["by"]["own"]


def test_a_list_changed_in_place_stays_the_list_that_earlier_names_hold(opened):
    """A replay changes the object as the cell did, so that every name for it sees the change."""
    before = (
        "class Agent: pass\nsystem = {'role': 'system'}\nmessages = [system]\n"
        "agent = Agent(); agent.messages = messages; agent.seen = {1}; also = messages"
    )
    body = "messages.append({'role': 'user'})\nlast = messages[-1]\nhold = [messages]"
    twice(opened, body, before)

    names = opened.names
    assert names["messages"] == [{"role": "system"}, {"role": "user"}]
    assert names["agent"].messages is names["messages"] is names["also"] is names["hold"][0]
    assert names["messages"][0] is names["system"]
    assert names["last"] is names["messages"][1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "change"),
    [
        ("{'a': 1}", "thing['b'] = 2"),
        ("{1}", "thing.add(2)"),
        ("bytearray(b'a')", "thing.extend(b'b')"),
        ("__import__('collections').deque([1])", "thing.append(2)"),
        ("C()", "thing.n = 2"),
    ],
)
def test_each_kind_of_object_is_changed_in_place_where_python_can(opened, make, change):
    """Dicts, sets, byte arrays, deques and plain objects keep their identity on a replay."""
    before = f"import dataclasses\n@dataclasses.dataclass\nclass C:\n    n: int = 1\nthing = {make}; other = [thing]"
    opened.ok(before)
    opened.ok(f"{NONE}\n{change}")
    after = repr(opened.names["thing"])
    opened.restart()
    opened.ok("%durable run job")
    opened.ok(before)
    opened.ok(f"{NONE}\n{change}")

    assert repr(opened.names["thing"]) == after
    assert opened.names["other"][0] is opened.names["thing"]


@pytest.mark.slow
def test_a_frame_changed_in_place_is_bound_anew_under_all_its_names(opened):
    """Where Python cannot change it back in place, every name gets the recorded object."""
    before = "import pandas as pd\ndf = pd.DataFrame({'a': [1, 2]}); also = df"

    twice(opened, "df['b'] = df['a'] * 2", before)

    assert list(opened.names["df"].columns) == ["a", "b"]
    assert opened.names["also"] is opened.names["df"]


@pytest.mark.parametrize(
    ("before", "body", "says"),
    [
        ("log = []", "holder = Box(log)", "holder holds log"),
        ("log = []", "log.append(1)\nholder = Box(log)", "holder holds log"),
        ("inner = {'k': Key(1)}", "holder = {next(iter([inner['k']])): 1}", "holder holds inner"),
        (
            "import pandas as pd\ndf = pd.DataFrame({'a': [1]}); keep = [df]",
            "df['b'] = 1",
            "df holds keep[0]",
        ),
    ],
)
def test_what_cannot_be_pointed_to_is_refused_by_name(opened, before, body, says):
    """A record would make two objects of it, so nothing is kept, and the remedy is named."""
    opened.ok(
        "import dataclasses\n@dataclasses.dataclass\nclass Box:\n    v: object\n"
        "@dataclasses.dataclass(unsafe_hash=True)\nclass Key:\n    v: object"
    )
    opened.ok(before)

    done = opened.run(f"{NONE}\n{body}\nrest = [1]")

    assert isinstance(done.error, dnb.ResultLost), done.out
    assert says in done.out
    assert "--out" in done.out
    assert opened.names["run"].get("cell#1").outcome == "incomplete"
    opened.ok("%%durable cell --effect none --out rest\nrest = [1]")


def test_a_notebook_too_large_to_search_says_that_sharing_was_not_looked_for(opened, monkeypatch):
    """A limit bounds the time that a cell takes, and what it costs is said aloud."""
    monkeypatch.setattr("durable_nb.notebook.graph.LIMIT", 10)
    opened.ok("big = [[] for _ in range(100)]")

    shown = opened.ok(f"{NONE}\npick = [big[0]]")

    assert "too many objects" in shown.out


def test_sharing_what_nobody_can_change_is_no_sharing(opened):
    """Texts, numbers, tuples of them and enums are one value wherever they are."""
    opened.ok("import enum\nclass E(enum.Enum): A = 1\ntext, pair = 'x' * 99, (1, 'y')")

    opened.ok(f"{NONE}\nholder = {{'t': text, 'p': pair, 'e': E.A}}")


def test_names_that_cannot_be_recorded_are_listed_beside_those_that_can(opened):
    """Five good names and three bad give one error that names all of them and the remedy."""
    body = "a, b, c, d, e = range(5)\nf = open('f', 'w')\ng = (i for i in ())\nh = make()"
    opened.ok("def make():\n    def inner(): ...\n    return inner")

    done = opened.run(f"%%durable cell\n{body}")

    assert isinstance(done.error, dnb.ResultLost)
    assert "it happened; only its result is missing" in done.out
    assert "f: _io.TextIOWrapper" in done.out
    assert "g: generator" in done.out
    assert "h: a function" in done.out
    assert "these can be: a, b, c, d, e\n" in done.out
    assert "--out a,b,c,d,e)" in done.out
    assert [op.id for op in opened.names["run"].unknown()] == ["cell#1"]


def test_values_that_cannot_be_recorded_are_found_inside_of_others(opened):
    """The error names the path to the object, not just the name."""
    done = opened.run(f"{NONE}\ngood = 1\nbad = {{'k': [open('f', 'w')]}}")

    assert 'bad["k"][0]' in done.out
    assert "these can be: good" in done.out
    assert [s.outcome for s in map(opened.names["run"].view, opened.names["run"].states())] == [
        "incomplete"
    ]


def test_what_a_with_statement_has_closed_is_left_out_and_stops_nothing(opened):
    """`with open(...) as f` leaves a closed file behind, which nobody misses."""
    twice(opened, "with open('f', 'w') as f:\n    written = f.write('abc')")

    assert opened.names["written"] == 3
    assert "f" not in opened.names


def test_out_keeps_only_what_it_names_and_says_what_a_restart_would_lose(opened):
    """`--out` restricts; an object changed in place and not kept is said aloud."""
    line = "%%durable cell --effect none --out x"
    opened.ok("log = []")
    first = opened.ok(f"{line}\nx = 1\ny = open('f', 'w')\nlog.append(2)")
    opened.restart()
    opened.ok("%durable run job\nlog = []")
    opened.ok(f"{line}\nx = 1\ny = open('f', 'w')\nlog.append(2)")

    assert "changed log in place" in first.out
    assert opened.names["x"] == 1
    assert "y" not in opened.names
    assert opened.names["log"] == []


def test_out_of_a_name_that_was_not_made_after_all_is_an_error(opened):
    """A promised name that is missing at the end is not recorded as done."""
    done = opened.run("%%durable cell --effect none --out x\nif False:\n    x = 1")

    assert isinstance(done.error, dnb.ResultLost)
    assert "x: the cell did not leave this name behind" in done.out


@pytest.mark.parametrize(
    ("options", "body", "outcome"),
    [
        ("--effect none", "if False:\n    x = y = 1\nz = 2", "incomplete"),
        ("", "if False:\n    x = y = 1\nz = 2", "unknown"),
        (
            "",
            "z = run.step('s', effect='none').call(int)\nif not run:\n    x = y = 1",
            "incomplete",
        ),
        ("--effect none", "x = y = z = 1\ndel x, y", "incomplete"),
    ],
)
def test_a_cell_is_completed_only_with_all_of_its_outputs(opened, options, body, outcome):
    """The ones that are not there are named, all of them; in the error and in the status."""
    done = opened.run(f"%%durable cell --out x,y,z {options}\n{body}")

    assert not done.ok
    view = opened.names["run"].get("cell#1")
    assert view.outcome == outcome
    for shown in (done.out, view.error):
        assert "x: the cell did not leave this name behind" in shown
        assert "y: the cell did not leave this name behind" in shown
        assert "z: the" not in shown
    if outcome == "incomplete":
        opened.ok("%%durable cell --out x,y,z --effect none\nx = y = z = 1")
        assert opened.names["run"].get("cell#1").outcome == "completed"


CHECKS = "def few(x):\n    return len(x) < 3\ndef sane(y):\n    assert y > 0, 'below zero'"


def test_a_cell_is_completed_only_if_what_it_leaves_is_let_through(opened):
    """`--validate` names functions of the notebook; all that is wrong is said."""
    line = "%%durable cell --effect none --validate x=few,y=sane"
    opened.ok(CHECKS)
    done = opened.run(f"{line}\nx = [1, 2, 3]\ny = -1")

    assert isinstance(done.error, dnb.ResultLost)
    error = opened.names["run"].get("cell#1").error
    for shown in (done.out, error):
        assert "few refused x [1, 2, 3]; sane refused y: AssertionError: below zero" in shown
    assert opened.names["run"].get("cell#1").outcome == "incomplete"
    opened.ok("del y")
    assert "the result has no y" in opened.run(f"{line}\nx = [1]").out
    opened.ok(f"{line}\nx = [1]\ny = 1")
    opened.restart()
    opened.ok("%durable run job")
    early = opened.run(f"{line}\nx = [1]\ny = 1")
    assert "--validate names few, sane, which is no function" in early.out
    opened.ok(CHECKS)
    assert "from record" in opened.ok(f"{line}\nx = [1]\ny = 1").out


@pytest.mark.parametrize("body", ["x = [1]", "x = run.call(list, [1])"])
def test_a_changed_validator_of_a_cell_is_noticed(opened, body):
    """What it let through may not pass any more; a container's as well."""
    line = "%%durable cell --on-change ask --validate x=few"
    opened.ok(CHECKS)
    opened.ok(f"{line}\n{body}")
    opened.restart()
    opened.ok("%durable run job")
    opened.ok(CHECKS.replace("< 3", "< 2"))
    done = opened.run(f"{line}\n{body}")
    assert isinstance(done.error, dnb.IncompatibleCheckpoint)
    assert "artifact schema" in done.out


@pytest.mark.parametrize("wrong", ["x", "x=", "x=f,", "x=f=g", "x=a.b"])
def test_a_validator_that_is_no_pair_of_names_is_a_usage_error(opened, wrong):
    """Nothing was run or recorded."""
    done = opened.run(f"%%durable cell --validate {wrong}\nx = 1")
    assert "--validate" in done.out
    assert "Nothing was run or recorded" in done.out
    assert opened.names["run"].states() == []


def test_imports_functions_and_classes_come_back_and_work(opened):
    """Definitions are run again from the source; instances of the cell's own classes fit them."""
    body = (
        "import json as j, os.path\nfrom math import pi, floor\nfrom collections import *\n"
        "if True:\n    import string\n"
        "from dataclasses import dataclass\n"
        "@dataclass\nclass Point:\n    x: int\n"
        "base = 10\ndef add(n, to=base):\n    return n + to + floor(pi)\n"
        "double = lambda v: 2 * v\n"
        "p = Point(4)\n"
    )
    twice(opened, body)

    names = opened.names
    assert names["j"].dumps([names["p"].x]) == "[4]"
    assert type(names["p"]) is names["Point"]
    assert names["add"](1) == 14
    assert names["double"](4) == 8
    assert names["string"].digits == "0123456789"
    assert names["deque"]([1])[0] == 1


def test_a_function_that_a_replay_cannot_define_again_is_refused_with_the_reason(opened):
    """A decorator that may do something is not run again on a replay."""
    opened.ok("seen = []\ndef register(f):\n    seen.append(f.__name__)\n    return f")

    done = opened.run(f"{NONE}\n@register\ndef tool(): ...")

    assert "@register" in done.out
    assert "a cell of its own" in done.out


@pytest.mark.slow
def test_a_failed_cell_keeps_nothing_and_its_second_attempt_keeps_all(opened):
    """Case 48: no name of a cell that raised is stored; a retry that binds equal values counts."""
    body = "x = 5\nif fail:\n    raise ValueError('no')\ny = 6"
    opened.ok("fail = True")
    assert not opened.run(f"{NONE}\n{body}").ok
    assert opened.names["run"].get("cell#1").outcome == "incomplete"

    opened.ok("fail = False")
    opened.ok(f"{NONE}\n{body}")
    opened.restart()
    opened.ok("%durable run job\nfail = True")
    opened.ok(f"{NONE} --on-change keep\n{body}")

    assert (opened.names["x"], opened.names["y"]) == (5, 6)


def test_what_has_no_digest_is_listed_as_not_watched(opened):
    """A replay says of which objects a change in place would have gone unnoticed."""
    opened.ok("client = open('f', 'w')")
    opened.ok(f"{NONE}\nname = client.name")

    shown = opened.ok(f"{NONE}\nname = client.name")

    assert "not watched: client" in shown.out


@pytest.mark.slow
def test_the_run_and_the_steps_of_a_cell_are_no_values(opened):
    """A container may bind the run and define steps, and still completes."""
    body = (
        "import durable_nb as dnb\nagain = dnb.current_run()\n"
        "@dnb.step(effect='none')\ndef one(): return 1\nx = one()"
    )
    shown = twice(opened, body, line="%%durable cell")

    assert opened.names["x"] == 1
    assert opened.names["one"].fn() == 1
    assert "again" not in opened.names
    assert "from record" in shown.out


def test_a_confirmed_cell_binds_what_the_person_said(opened):
    """A verdict gives names and values, or the one value of `--out`."""
    assert not opened.run("%%durable a --out ticket\nticket = 1 / 0").ok
    opened.ok("%durable confirm a#1 77")
    opened.ok("%%durable a --out ticket\nticket = 1 / 0")
    assert not opened.run("%%durable b\nx = 1 / 0").ok
    opened.ok("%durable confirm b#1 {'x': 3} --evidence 'seen in the log'")
    shown = opened.ok("%%durable b\nx = 1 / 0")

    assert (opened.names["ticket"], opened.names["x"]) == (77, 3)
    assert "settled by a verdict" in shown.out


@pytest.mark.slow
def test_the_same_name_in_both_spellings_is_one_operation(opened):
    """Case 33: `%%durable plan` and `with run.step("plan")` have one identity."""
    opened.ok("with run.step('plan', effect='none') as op:\n    if op.needed: op.result = {'x': 1}")
    opened.restart()
    opened.ok("%durable run job")

    opened.ok("%%durable plan --effect none --on-change keep\nx = 2")

    assert opened.names["x"] == 1
    assert [s.id for s in opened.names["run"].states()] == ["plan#1"]


@pytest.mark.slow
def test_an_opaque_cell_may_open_no_step_and_is_told_the_word_to_add(opened):
    """A cell is opaque by its source: a step that a function opens in it is refused."""
    opened.ok("def counted():\n    return run.call(len, [1])")

    done = opened.run("%%durable cell\nn = counted()")

    assert isinstance(done.error.__cause__, dnb.NestedEffect)
    assert "--effect none" in done.out
    opened.ok("%durable deny cell#1")
    opened.ok("%%durable cell --effect none\nn = counted()")
    assert [s.id for s in opened.names["run"].states()] == ["cell#1", "cell#1/len#1"]


def test_a_change_of_code_or_input_is_asked_about_and_a_new_comment_is_not(opened):
    """The syntax tree and the inputs of `--in` are facets; quotes and comments are not."""
    opened.ok("q = [1]")
    opened.ok("%%durable cell --in q\nx = 'a'")
    opened.ok('%%durable cell --in q\n\n# why\nx = "a"')
    changed = opened.run("%%durable cell --in q\nx = 'b'")
    assert isinstance(changed.error, dnb.IncompatibleCheckpoint)
    opened.ok("%%durable cell --in q\nx = 'a'")

    opened.ok("q = [2]")
    changed = opened.run("%%durable cell --in q\nx = 'a'")

    assert isinstance(changed.error, dnb.IncompatibleCheckpoint)
    assert "q" in changed.out


def test_the_errors_survive_pickling():
    """Errors carry facts as attributes and come back whole from another process."""
    bad = NamesNotRecordable("cell", ["a"], {"f": "a file"})
    shared = SharedWithEarlierCell("cell", {"holder": "log"})

    for error in (bad, shared):
        again = pickle.loads(pickle.dumps(error))
        assert str(again) == str(error)
        assert again.cell == "cell"


@pytest.mark.parametrize("effect", ["external", "idempotent"])
def test_an_effect_given_on_the_line_holds_also_for_a_cell_that_names_the_run(opened, effect):
    """What the user says of a cell beats what its source suggests."""
    opened.ok(f"%%durable cell --effect {effect}\nwhich = run.name")

    assert opened.names["run"].get("cell#1").effect == effect
