"""Declared files: what a step reads and what it makes are on record, and compared on a resume."""

import os
from pathlib import Path

import pytest

import durable_nb as dnb
from durable_nb.engine import produced


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Work in a folder that is not the store's: paths are relative to it."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def count(path="data.csv"):
    """Read a file."""
    return len(Path(path).read_text().splitlines())


def make(text="a\n"):
    """Write a file."""
    Path("out.csv").write_text(text)
    return len(text)


# -- uses ----------------------------------------------------------------------------------------


def test_a_used_file_that_is_as_it_was_changes_nothing(open_run):
    """Its content counts, not its times."""
    Path("data.csv").write_text("a\nb\n")
    with open_run() as run:
        assert run.step(uses=["data.csv"]).call(count) == 2
    os.utime("data.csv", (1, 1))
    with open_run() as run:
        assert run.step(uses=["data.csv"]).call(count) == 2
        assert run.get("count").source == "record"


@pytest.mark.parametrize(
    ("harm", "shown"),
    [
        (lambda p: p.write_text("a\n"), r"file data.csv: 4 bytes, sha256 \S+ -> 2 bytes, sha256"),
        (lambda p: p.write_text("x\nb\n"), r"file data.csv: 4 bytes, sha256 \S+ -> 4 bytes"),
        (lambda p: p.unlink(), r"file data.csv: 4 bytes, sha256 \S+ -> missing"),
    ],
    ids=["shorter", "same size", "missing"],
)
def test_a_changed_used_file_asks_and_is_shown(open_run, harm, shown):
    """It is a change like any other; a kept record is not asked about again."""
    Path("data.csv").write_text("a\nb\n")
    with open_run() as run:
        run.step(uses=["data.csv"]).call(count)
    harm(Path("data.csv"))
    with open_run() as run:
        with pytest.raises(dnb.IncompatibleCheckpoint, match=shown):
            run.step(uses="data.csv").call(count)
        run.keep("count")
    with open_run() as run:
        assert run.step(uses=["data.csv"]).call(count) == 2


def test_a_cheap_and_pure_step_reads_a_changed_file_again(open_run, capsys):
    """The default rule is that of any facet."""
    Path("data.csv").write_text("a\n")
    step = {"effect": "none", "uses": [Path("data.csv")]}
    with open_run() as run:
        assert run.step(**step).call(count) == 1
    Path("data.csv").write_text("a\nb\n")
    with open_run() as run:
        assert run.step(**step).call(count) == 2
    assert "running again, because this changed: file data.csv: 2 bytes" in capsys.readouterr().err


def test_a_missing_file_is_a_plain_error_before_the_intent(open_run):
    """Nothing was begun, so nothing is in doubt; it is named."""
    with open_run() as run:
        with pytest.raises(FileNotFoundError, match=r"data.csv, b.csv .*Nothing was begun"):
            run.step(uses=["data.csv", "b.csv"]).call(count)
        assert run.operations().empty


def test_a_file_that_is_gone_is_not_a_reason_to_forget_what_it_gave(open_run):
    """A rerun that cannot begin leaves the record as it was."""
    Path("data.csv").write_text("a\n")
    step = {"effect": "none", "uses": ["data.csv"]}
    with open_run() as run:
        run.step(**step).call(count)
    Path("data.csv").unlink()
    with open_run() as run:
        with pytest.raises(FileNotFoundError, match="count#1"):
            run.step(**step).call(count)
        assert run.get("count").outcome == "completed"
    with open_run() as run:
        assert run.step(**step, on_change="keep").call(count) == 1


@pytest.mark.slow
def test_each_attempt_stands_on_the_file_that_it_read(open_run):
    """A file that is mended between two attempts is on record as the second one read it."""
    Path("data.csv").write_text("")

    def read():
        found = count()
        if not found:
            Path("data.csv").write_text("mended\n")
            raise LookupError("empty")
        return found

    step = {"effect": "none", "uses": ["data.csv"], "retries": 1}
    with open_run() as run:
        assert run.step(**step).call(read) == 1
    with open_run() as run:
        assert run.step(**step, on_change="ask").call(read) == 1


# -- produces ------------------------------------------------------------------------------------


def test_a_produced_file_is_on_record_with_its_digest(open_run):
    """Path, digest and size; the path as it was given."""
    with open_run() as run:
        run.step("make", produces=["./out.csv"]).call(make)
        ((path, (digest, shown)),) = run.fold.operations["make#1"].basis["produced"].items()
        assert path == "./out.csv"
        assert shown.startswith("2 bytes, sha256 ")
        assert len(digest) >= 32
    with open_run() as run:
        assert run.step("make", produces=["./out.csv"]).call(make) == 2
        assert run.get("make").source == "record"


@pytest.mark.parametrize(("effect", "outcome"), [("none", "incomplete"), ("external", "unknown")])
def test_a_file_that_was_not_produced_leaves_no_result(open_run, effect, outcome):
    """The body returned all the same; the reason is in the error and in what `show` prints."""
    with open_run() as run:
        with pytest.raises(dnb.ResultLost, match=r"did not produce b.csv, c.csv"):
            run.step(effect=effect, produces=["out.csv", "b.csv", "c.csv"]).call(make)
        view = run.get("make")
        assert view.outcome == outcome
        assert "did not produce b.csv, c.csv" in view.error
        assert list(run.history("make")["kind"]) == ["intended", "unrecorded"]


def test_files_are_on_disk_before_the_record_that_names_them(open_run, monkeypatch):
    """The file, then its folder, then the record."""
    order = []
    fsync = os.fsync

    def noted(fd):
        there = [name for name in ("out.csv", ".") if Path(name).exists()]
        order.extend(n for n in there if os.path.samestat(os.fstat(fd), os.stat(n)))
        return fsync(fd)

    with open_run() as run:
        append = run.append
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", noted)
            patch.setattr(
                run,
                "append",
                lambda *d, **k: order.extend(str(x.kind) for x in d) or append(*d, **k),
            )
            run.step("make", produces=["out.csv"]).call(make)
    wanted = ["intended", "out.csv", ".", "completed"]
    assert [what for what in order if what != "defined"] == wanted


def test_a_flush_that_fails_is_no_record_of_the_file(open_run, monkeypatch):
    """Bytes that did not reach the disk are not promised."""

    def broken(fd):
        raise OSError(5, "I/O error")

    with open_run() as run:
        with monkeypatch.context() as patch:
            patch.setattr(produced.os, "fsync", broken)
            with pytest.raises(dnb.ResultLost, match="I/O error"):
                produces = run.step("make", effect="none", produces=["out.csv"])
                produces.call(make)
        assert run.get("make").outcome == "incomplete"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("harm", "shown"),
    [
        (lambda p: p.write_text("b\n"), r"produced out.csv: 2 bytes, sha256 \S+ -> 2 bytes"),
        (lambda p: p.unlink(), r"produced out.csv: 2 bytes, sha256 \S+ -> missing"),
    ],
    ids=["changed", "missing"],
)
def test_a_produced_file_that_changed_asks_and_keep_takes_it_as_it_is(open_run, harm, shown):
    """The question survives the kernel; once it is kept, it is not asked again."""
    step = {"produces": ["out.csv"]}
    with open_run() as run:
        run.step(**step).call(make)
    harm(Path("out.csv"))
    with pytest.raises(dnb.IncompatibleCheckpoint, match=shown), open_run() as run:
        run.step(**step).call(make)
    with open_run() as run:
        run.keep("make", reason="edited by hand")
    for _ in range(2):
        with open_run() as run:
            assert run.step(**step).call(make) == 2
            assert run.get("make").source == "record"
    Path("out.csv").write_text("another\n")
    with open_run() as run:
        with pytest.raises(dnb.IncompatibleCheckpoint, match=r"produced out\.csv"):
            run.step(**step).call(make)


@pytest.mark.parametrize("policy", ["keep", lambda old, changes: old])
def test_a_policy_that_keeps_records_the_files_as_they_are(open_run, policy, capsys):
    """It says so once, and then there is nothing to say."""
    step = {"produces": ["out.csv"], "on_change": policy}
    with open_run() as run:
        run.step(**step).call(make)
    Path("out.csv").unlink()
    with open_run() as run:
        assert run.step(**step).call(make) == 2
    assert "kept although this changed: produced out.csv" in capsys.readouterr().err
    with open_run() as run:
        assert run.step(**step).call(make) == 2
    assert "kept" not in capsys.readouterr().err


def test_a_pure_step_makes_a_lost_file_again(open_run):
    """The default rule, and the new file is what is compared from then on."""
    step = {"effect": "none", "produces": ["out.csv"]}
    with open_run() as run:
        run.step(**step).call(make)
    Path("out.csv").unlink()
    with open_run() as run:
        run.step(**step).call(make)
        assert Path("out.csv").read_text() == "a\n"
    with open_run() as run:
        run.step(**step, on_change="ask").call(make)
        assert run.get("make").source == "record"


def test_one_answer_about_a_file_says_nothing_of_another_steps_file(open_run):
    """A produced file is one operation's own."""
    with open_run() as run:
        for key in "ab":
            run.step(key=key, produces=["out.csv"]).call(make)
    Path("out.csv").write_text("b\n")
    with open_run() as run:
        with pytest.raises(dnb.IncompatibleCheckpoint):
            run.step(key="a", produces=["out.csv"]).call(make)
        run.keep("make[a]#1")
    with open_run() as run:
        run.step(key="a", produces=["out.csv"]).call(make)
        with pytest.raises(dnb.IncompatibleCheckpoint, match=r"produced out\.csv"):
            run.step(key="b", produces=["out.csv"]).call(make)


def test_a_file_that_a_record_does_not_know_was_made_by_nobody(open_run):
    """`produces=` that was added later is noticed; a confirmed result is taken as it is."""
    with open_run() as run:
        run.call(make)
    with open_run() as run:
        with pytest.raises(
            dnb.IncompatibleCheckpoint, match=r"produced out\.csv: not on record ->"
        ):
            run.step(produces=["out.csv"]).call(make)
    with open_run("other") as run:
        with pytest.raises(dnb.ResultLost):
            run.step(produces=["never.csv"]).call(make)
        run.confirm("make", 7)
    with open_run("other") as run:
        assert run.step(produces=["never.csv"]).call(make) == 7


def test_a_result_that_came_out_differently_keeps_its_files(open_run):
    """The question about the result does not forget what the step has made."""
    texts = iter(["a\n", "other\n"])
    step = {"effect": "none", "produces": ["out.csv"], "inputs": {}}

    def program(run):
        run.step("make", **step).call(lambda: make(next(texts)))
        run.step("send").call(lambda: 1)

    with open_run() as run:
        program(run)
        run.invalidate("make", reason="again")
    with open_run() as run:
        run.step("make", **step).call(lambda: make(next(texts)))
        run.keep("make")
        assert "out.csv" in run.fold.operations["make#1"].basis["produced"]


def test_what_a_later_step_uses_is_what_the_earlier_one_made(open_run):
    """A chain of files: the second step is stale once the first one makes another file."""

    def program(run, text):
        run.step(effect="none", produces=["out.csv"]).call(make, text)
        return run.step(effect="none", uses=["out.csv"]).call(count, "out.csv")

    with open_run() as run:
        assert program(run, "a\n") == 1
    with open_run() as run:
        assert program(run, "a\nb\n") == 2


def test_a_folder_is_produced_as_a_whole(open_run):
    """Each file in it counts."""

    def fill():
        Path("out/deep").mkdir(parents=True, exist_ok=True)
        Path("out/deep/a.txt").write_text("a")

    with open_run() as run:
        run.step(produces=["out"]).call(fill)
    Path("out/deep/a.txt").write_text("b")
    with open_run() as run:
        with pytest.raises(dnb.IncompatibleCheckpoint, match="produced out: "):
            run.step(produces=["out"]).call(fill)


def test_a_file_cannot_be_used_and_produced_by_one_step(open_run):
    """It would be found changed on each resume."""
    with open_run() as run:
        with pytest.raises(TypeError, match=r"both name data\.csv"):
            run.step(uses=["data.csv"], produces=["data.csv"])


# -- validators ----------------------------------------------------------------------------------


def positive(number):
    """Let a number through that is more than 0."""
    return number > 0


def test_a_refused_result_says_why(open_run):
    """By returning False, numpy's included, or by raising; in the error and in `show`."""
    import numpy

    def angry(number):
        raise ValueError("below zero")

    with open_run() as run:
        for n, (check, why) in enumerate(
            [
                (positive, "positive refused the result -1"),
                (lambda x: numpy.array([x]).min() > 0, "<lambda> refused the result -1"),
                (angry, "angry refused the result: ValueError: below zero"),
            ]
        ):
            with pytest.raises(dnb.ResultLost, match=why):
                run.step(f"s{n}", effect="none", validate=check).call(lambda: -1)
            assert why in run.get(f"s{n}").error
            assert run.step(f"t{n}", effect="none", validate=positive).call(lambda: 1) == 1


def test_a_class_with_model_validate_and_a_mapping_of_names_validate_too(open_run):
    """What pydantic says is the reason; of a mapping all that is wrong is named."""
    from pydantic import BaseModel

    class Plan(BaseModel):
        amount: int

    checks = {"plan": Plan, "n": positive, "gone": positive}
    with open_run() as run:
        step = run.step("a", effect="none", validate=Plan)
        assert step.call(lambda: {"amount": 3}) == {"amount": 3}
        with pytest.raises(dnb.ResultLost, match="Plan refused the result: ValidationError"):
            run.step("b", effect="none", validate=Plan).call(lambda: {"amount": "x"})
        with pytest.raises(dnb.ResultLost) as lost:
            run.step("c", effect="none", validate=checks).call(lambda: {"plan": {}, "n": 0})
        assert "the result has no gone; Plan refused plan: Val" in str(lost.value)
        assert "positive refused n 0" in str(lost.value)
        with pytest.raises(dnb.ResultLost, match="no mapping"):
            run.step("d", effect="none", validate=checks).call(lambda: 5)


def test_what_cannot_validate_is_a_type_error(open_run):
    """Also a coroutine function, whose coroutine would let everything through."""

    async def check(value):
        return False

    with open_run() as run:
        for wrong in (7, check, {}, {"a": 7}, {"a": {"b": positive}}):
            with pytest.raises(TypeError, match="validate="):
                run.step("s", validate=wrong)

        class Hidden:
            def __call__(self, value):
                return check(value)

        with pytest.raises(dnb.ResultLost, match="validate= is async"):
            run.step("s", effect="none", validate=Hidden()).call(lambda: 1)


def model(name, **fields):
    """Make a pydantic class."""
    from pydantic import create_model

    return create_model(name, **{n: (kind, ...) for n, kind in fields.items()})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (positive, lambda x: x > 1),
        (model("M", a=int), model("M", a=int, b=int)),
        ({"a": positive}, {"a": positive, "b": positive}),
        (None, positive),
    ],
    ids=["code", "schema", "names", "added"],
)
def test_a_changed_validator_is_noticed(open_run, before, after):
    """It is the facet `artifact schema`; an equal one, of another kernel, changes nothing."""

    def give():
        return {"a": 1, "b": 1} if not callable(after) or isinstance(after, type) else 2

    with open_run() as run:
        run.step("s", validate=before).call(give)
    with open_run() as run:
        same = model("M", a=int) if isinstance(before, type) else before
        run.step("s", validate=same).call(give)
        assert run.get("s").source == "record"
    with open_run() as run:
        with pytest.raises(dnb.IncompatibleCheckpoint, match="artifact schema: "):
            run.step("s", validate=after).call(give)
        run.keep("s")
    with open_run() as run:
        run.step("s", validate=after).call(give)
