"""A stage is completed only with all of its declared outputs, each of which was let through."""

import asyncio

import pytest

import durable_nb as dnb


def big_enough(table):
    """Let a table through that has rows."""
    return len(table) > 0


def extract(run, **options):
    """Produce both outputs, from steps of its own."""
    with run.stage("extract", outputs={"table", "summary"}, **options) as stage:
        if stage.needed:
            stage["table"] = run.step("read", effect="none").call(lambda: [1, 2])
            stage["summary"] = f"{len(stage['table'])} rows"
    return stage


def test_a_stage_is_one_operation_whose_result_is_the_dict_of_its_outputs(open_run):
    """It contains its steps, and replays without entering its body."""
    with open_run() as run:
        stage = extract(run)
        assert stage.result == {"summary": "2 rows", "table": [1, 2]}
        assert list(run.operations()["id"]) == ["extract#1", "extract#1/read#1"]
        assert set(run.operations()["effect"]) == {"none"}
    with open_run() as run:
        stage = extract(run)
        assert (stage["table"], stage["summary"]) == ([1, 2], "2 rows")
        assert run.get("extract#1").source == "record"
        assert run.get("read").source == ""


def test_a_stage_is_awaited_in_the_same_spelling(open_run):
    """`async with`, with steps that are awaited in it."""

    async def program():
        async def read():
            return [1]

        async with open_run() as run:
            async with run.stage("extract", outputs=["table"]) as stage:
                if stage.needed:
                    stage["table"] = await run.step("read", effect="none").call(read)
            return stage.result

    assert asyncio.run(program()) == asyncio.run(program()) == {"table": [1]}


@pytest.mark.parametrize(
    ("produced", "reason"),
    [
        ({}, "did not produce summary, table"),
        ({"table": [1]}, "did not produce summary"),
        ({"table": []}, "did not produce summary; big_enough refused table"),
        ({"table": [], "summary": 7}, r"big_enough refused table \[\]; short refused summary: Typ"),
    ],
)
def test_a_missing_or_refused_output_keeps_the_stage_incomplete_and_all_are_named(
    open_run, produced, reason
):
    """Nothing is completed in part; the reason is in the error and in what `show` prints."""

    def short(text):
        return len(text) < 100

    def program(run):
        checks = {"table": big_enough, "summary": short}
        with run.stage("extract", outputs={"table", "summary"}, validate=checks) as stage:
            if stage.needed:
                for name, value in produced.items():
                    stage[name] = value

    with open_run() as run:
        with pytest.raises(dnb.ResultLost, match=reason):
            program(run)
        view = run.get("extract")
        assert view.outcome == "incomplete"
        assert view.result is None
        assert "did not produce" in view.error or "refused" in view.error
    produced = {"table": [1], "summary": "ok"}
    with open_run() as run:
        program(run)
        assert run.get("extract").outcome == "completed"


def test_an_external_stage_with_an_output_missing_is_unknown(open_run):
    """It happened; only its result is missing."""
    with open_run() as run:
        with pytest.raises(dnb.ResultLost, match="it happened"):
            with run.stage("send", outputs=["receipt"], effect="external") as stage:
                stage.needed
        assert [o.id for o in run.unknown()] == ["send#1"]


def test_an_output_that_was_not_declared_is_refused_at_once(open_run):
    """It is named, with those that are declared; also where it is only read."""
    with open_run() as run:
        with pytest.raises(KeyError, match="'tabel' is no output of s#1; outputs are table"):
            with run.stage("s", outputs=["table"]) as stage:
                if stage.needed:
                    stage["tabel"] = 1
        with run.stage("s", outputs=["table"], key="k") as stage:
            if stage.needed:
                with pytest.raises(dnb.OutputUnknown, match="not produced its output 'table' yet"):
                    stage["table"]
                with pytest.raises(dnb.OutputUnknown, match="no output"):
                    stage["x"]
                stage["table"] = 1
                assert "table" in stage
        assert stage["table"] == 1
        with pytest.raises(RuntimeError, match="too late"):
            stage["table"] = 2


def test_what_is_no_stage_is_a_plain_type_error(open_run):
    """Before anything is begun."""
    with open_run() as run:
        with pytest.raises(TypeError, match="a stage has outputs"):
            run.stage("s", outputs=())
        with pytest.raises(TypeError, match="names tabel, which is no output"):
            run.stage("s", outputs=["table"], validate={"tabel": big_enough})
        with pytest.raises(TypeError, match="it is a plain function"):
            run.stage("s", outputs=["table"], validate={"table": 7})
        with pytest.raises(TypeError, match="no option 'out'"):
            run.stage("s", outputs=["table"], out=1)
        assert run.operations().empty


def test_a_body_that_raised_did_not_produce_anything(open_run):
    """Its error goes on as it is, and the steps that it had finished replay."""
    calls = []

    def program(run, fail):
        with run.stage("extract", outputs=["table"]) as stage:
            if stage.needed:
                stage["table"] = run.step("read").call(lambda: calls.append(1) or 5)
                if fail:
                    raise LookupError("no")

    with open_run() as run:
        with pytest.raises(LookupError):
            program(run, fail=True)
    with open_run() as run:
        program(run, fail=False)
        assert run.get("extract").outcome == "completed"
    assert calls == [1]


def test_a_doubt_inside_keeps_a_stage_from_being_completed(open_run):
    """Also where the body went on over it."""
    with open_run() as run:

        def send():
            raise TimeoutError

        with pytest.raises(dnb.UnknownOutcome):
            with run.stage("extract", outputs=["table"]) as stage:
                if stage.needed:
                    try:
                        run.call(send)
                    except BaseException:
                        pass
                    stage["table"] = 1
        assert run.get("extract").outcome == "incomplete"


def test_another_output_or_validator_is_a_change(open_run):
    """A record that lacks what is promised now is not used in silence."""
    with open_run() as run:
        extract(run)
        run.call(lambda_free)
    with open_run() as run:
        with pytest.raises(dnb.IncompatibleCheckpoint, match="artifact schema: summary, table"):
            extract(run, validate={"table": big_enough})
        with pytest.raises(dnb.IncompatibleCheckpoint, match="artifact schema"):
            with run.stage("extract", outputs=["table", "summary", "more"], key=None) as stage:
                stage.needed


def lambda_free():
    """Have an effect, so that what lies before it is not just done again."""
    return 1


def test_a_stage_cannot_be_tried_again_by_itself(open_run):
    """Its body is entered once; that is said, and nothing was begun."""
    with open_run() as run:
        with pytest.raises(TypeError, match="retries= needs a function"):
            with run.stage("s", outputs=["x"], retries=2):
                pass
        assert run.operations().empty
