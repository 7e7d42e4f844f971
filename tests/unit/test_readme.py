"""The README says what is so."""

import re
import subprocess
from pathlib import Path

import durable_nb as dnb
from durable_nb.engine.options import _INTERNAL, Options

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
GUIDE = (ROOT / "docs" / "guide.md").read_text("utf-8")


def test_there_are_exactly_two_set_up_commands():
    """One for the main job and one for the tests, the latter being what CI calls."""
    commands = re.findall(r"^    (python3 -m venv .*)$", README, re.M)

    assert len(commands) == 2
    assert commands[0].endswith("&& .venv/bin/durable-nb demo")
    assert commands[1].endswith("&& .venv/bin/pytest")
    line = re.search(r"^tests=\$\((.*)\)$", (ROOT / ".ci" / "run").read_text(), re.M)[1]
    called = subprocess.run(line, shell=True, cwd=ROOT, capture_output=True, text=True, check=True)
    assert called.stdout.strip() == commands[1]


def test_every_public_name_that_the_docs_use_exists():
    """`dnb.x` and `run.x(...)` in README and guide are real."""
    text = README + GUIDE
    for name in set(re.findall(r"\bdnb\.([a-zA-Z_]+)", text)):
        assert hasattr(dnb, name), f"dnb.{name}"
    for name in set(re.findall(r"\brun\.([a-z_]+)\(", text)):
        assert hasattr(dnb.Run, name), f"run.{name}"


def test_every_step_option_is_in_the_guide():
    """The table of options is whole."""
    listed = set(re.findall(r"^\| `([a-z_]+)` \|", GUIDE.split("## Step options")[1], re.M))

    assert set(Options.__dataclass_fields__) - _INTERNAL <= listed


def test_every_outcome_of_the_guide_is_the_tables():
    """The guide's table of outcomes agrees with the one in the code."""
    from durable_nb.model.outcomes import OUTCOMES, Effect, Kind

    rows = {
        "nothing": None,
        "intended": Kind.INTENDED,
        "the body raised": Kind.RAISED,
        "interrupted": Kind.INTERRUPTED,
        "returned": Kind.UNRECORDED,
        "failed": Kind.OBSERVED,
        "result recorded": Kind.COMPLETED,
        "denied": Kind.DENIED,
        "invalidated": Kind.INVALIDATED,
    }
    table = GUIDE.split("## Spellings")[0]
    for start, kind in rows.items():
        line = re.search(rf"^\| {start}.*\|(.*)\|(.*)\|(.*)\|$", table, re.M)
        assert line, start
        said = ["completed" if "same" in c and kind is Kind.OBSERVED else c for c in line.groups()]
        for text, effect in zip(
            said, (Effect.NONE, Effect.IDEMPOTENT, Effect.EXTERNAL), strict=True
        ):
            assert re.search(r"completed|incomplete|unknown", text)[0] == OUTCOMES[effect, kind], (
                line
            )


def test_every_public_thing_says_what_it_is():
    """Each public name, and each public method of a run, has a docstring."""
    for name in dnb.__all__:
        assert getattr(dnb, name).__doc__, name
    for name in dir(dnb.Run):
        if not name.startswith("_") and callable(getattr(dnb.Run, name)):
            assert getattr(dnb.Run, name).__doc__, name


def test_the_display_of_an_approval_is_the_real_one():
    """The README shows what a cell that waits shows."""
    op = "approval[Send 40 mails?]#1"
    stop = dnb.ApprovalPending("refunds", op, "Send 40 mails?", "{'list': 'customers'}", ())

    assert "\n".join(stop._render_traceback_()) in README


def test_every_picture_and_file_that_the_docs_lead_to_is_there():
    """What a reader clicks on, and what they look at."""
    missing = []
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        text = page.read_text("utf-8")
        targets = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'src(?:set)?="([^"]+)"', text)
        local = {t.partition("#")[0] for t in targets if "://" not in t}
        missing += [
            f"{page.name}: {t}" for t in sorted(local - {""}) if not (page.parent / t).exists()
        ]
    assert missing == []
