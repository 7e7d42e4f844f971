"""Identity of operations."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durable_nb.model import identity

TEXT = st.text(min_size=1, max_size=12).filter(str.strip)


@given(name=TEXT, key=st.none() | st.text(max_size=12), n=st.integers(1, 10**6), outer=TEXT)
@settings(max_examples=200, derandomize=True, deadline=None)
def test_an_identity_can_be_taken_apart_again(name, key, n, outer):
    """Whatever users put into names and keys, `parent/name[key]#n` stays unambiguous."""
    parent = identity.identity("", outer, None, 1)

    place = identity.parse(identity.identity(parent, name, key, n))

    assert (place.parent, place.name, place.key, place.n) == (parent, name, key, n)


def test_an_identity_reads_as_the_design_writes_it():
    """`outer#1/act[7]#1`; the separators are escaped in what users wrote."""
    assert identity.identity("outer#1", "act", "7", 1) == "outer#1/act[7]#1"
    assert identity.identity("", "a/b", "[#%]", 2) == "a%2Fb[%5B%23%25%5D]#2"


def test_the_idempotency_key_depends_on_run_identity_and_generation_only():
    """Stable over attempts and kernels; another run or generation gives another key."""
    key = identity.idempotency_key("run", "s#1", 0)

    assert key == identity.idempotency_key("run", "s#1", 0)
    assert (
        len(
            {
                key,
                *(
                    identity.idempotency_key(*a)
                    for a in [("run2", "s#1", 0), ("run", "s#2", 0), ("run", "s#1", 1)]
                ),
            }
        )
        == 4
    )


@pytest.mark.parametrize("text", ["", "s", "s#0", "s#x", "[k]", "a]#1"])
def test_what_is_no_identity_is_refused(text):
    """A typo is told, not guessed at."""
    with pytest.raises(ValueError, match="operation id"):
        identity.parse(text)
