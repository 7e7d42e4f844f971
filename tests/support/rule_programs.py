"""Random programs of steps, as plain data: what the machine of rules runs and edits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from hypothesis import strategies as st

#: What becomes of one attempt at a step; "return" where nothing is planned.
TROUBLES = (
    "raise",  # an ordinary error after the effect, which proves nothing
    "refuse",  # an error before the effect that `not_applied` names
    "lose",  # the effect happens, and its result cannot be recorded
    "interrupt",  # Ctrl-C after the effect
    "die before",  # SIGKILL: the intent is there, the effect is not
    "die after",  # SIGKILL: the effect is there, its outcome is not
    "die recorded",  # SIGKILL just after the outcome was recorded
)


@dataclass(frozen=True)
class Step:
    """One call in a program.

    Attributes
    ----------
    value, code, model : int, int, str or None
        What the result depends on: an input, a version of the source, a declared facet.
    feeds : bool
        Whether the result of the call before is an input, too.
    catch : bool
        Whether the program handles an ordinary failure and goes on.
    inner : tuple of Step
        What the body calls.
    """

    name: str
    effect: str
    key: str | None = None
    value: int = 0
    code: int = 1
    model: str | None = None
    feeds: bool = False
    catch: bool = False
    on_change: str | None = None
    requires: str | None = None
    inner: tuple[Step, ...] = ()

    def __repr__(self) -> str:
        said = [repr(self.name), repr(self.effect)]
        said += [f"{f}={getattr(self, f)!r}" for f, plain in _PLAIN if getattr(self, f) != plain]
        return f"Step({', '.join(said)})"


_PLAIN = [(f, Step.__dataclass_fields__[f].default) for f in list(Step.__dataclass_fields__)[2:]]

Program = tuple[Step, ...]

NAMES = st.sampled_from(["plan", "pay", "mail", "look"])
KEYS = st.sampled_from([*[None] * 6, "k1", "k2"])
EFFECTS = st.sampled_from(["external", "external", "idempotent", "none", "none"])
VALUES = st.integers(0, 2)
CODES = st.integers(1, 2)
MODELS = st.sampled_from([None, "m1", "m2"])
SCOPES = st.sampled_from([None, "read", "send"])
POLICIES = st.sampled_from([None] * 7 + ["rerun", "keep", "ask"])


@st.composite
def steps(draw: st.DrawFn, depth: int = 2) -> Step:
    """One step; what holds others has effect `none`, or (seldom) is refused for it."""
    inner: Program = ()
    if depth and draw(st.integers(0, 3)) == 0:
        inner = draw(st.lists(steps(depth - 1), min_size=1, max_size=3).map(tuple))
    wrong = inner and draw(st.integers(0, 19)) == 19
    return Step(
        name=draw(NAMES),
        effect=draw(EFFECTS) if wrong or not inner else "none",
        key=draw(KEYS),
        value=draw(VALUES),
        code=draw(st.sampled_from([1, 1, 1, 2])),
        model=draw(st.sampled_from([None, None, "m1"])),
        feeds=draw(st.integers(0, 3)) == 3,
        catch=draw(st.integers(0, 3)) == 3,
        on_change=draw(POLICIES),
        requires=draw(st.sampled_from([None, None, None, None, "read", "send"])),
        inner=inner,
    )


def programs() -> st.SearchStrategy[Program]:
    """Draw a whole program."""
    return st.lists(steps(), min_size=1, max_size=4).map(tuple)


def paths(program: Program, above: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """List where every step of a program stands, the outer ones first."""
    for n, step in enumerate(program):
        yield (*above, n)
        yield from paths(step.inner, (*above, n))


def changed(program: Program, path: tuple[int, ...], how: Callable[[Step], Step]) -> Program:
    """Give the program with one step of it changed."""
    first, *rest = path
    step = program[first]
    new = replace(step, inner=changed(step.inner, tuple(rest), how)) if rest else how(step)
    return (*program[:first], new, *program[first + 1 :])


def within(program: Program, path: tuple[int, ...], how: Callable[[Program], Program]) -> Program:
    """Give the program with one list of steps in it changed; the empty path is all of it."""
    if not path:
        return how(program)
    return changed(program, path, lambda step: replace(step, inner=how(step.inner)))


# -- edits ---------------------------------------------------------------------------------------


def identities(
    program: Program, above: str = "", place: tuple[int, ...] = ()
) -> dict[str, tuple[int, ...]]:
    """Give the identities of a program's calls, as far as no key is there twice, and where."""
    found: dict[str, tuple[int, ...]] = {}
    for at, step in enumerate(program):
        stem = f"{above}{step.name}" + ("" if step.key is None else f"[{step.key}]")
        op = next(f"{stem}#{n}" for n in range(1, 99) if f"{stem}#{n}" not in found)
        found[op] = (*place, at)
        found |= identities(step.inner, f"{op}/", (*place, at))
    return found


def step_at(program: Program, path: tuple[int, ...]) -> Step:
    step = program[path[0]]
    return step_at(step.inner, path[1:]) if path[1:] else step


def everywhere(step: Step, code: int) -> Step:
    return replace(step, code=code, inner=tuple(everywhere(s, code) for s in step.inner))


def inserted(old: Program, at: int, step: Step) -> Program:
    place = at % (len(old) + 1)
    return (*old[:place], step, *old[place:])


def without(old: Program, at: int) -> Program:
    return old[:at] + old[at + 1 :]


def swapped(old: Program, at: int) -> Program:
    return old if not at else (*old[: at - 1], old[at], old[at - 1], *old[at + 1 :])
