"""The state of one operation: a tuple that is made from a list."""

from durable_nb.model import state
from durable_nb.model.state import OperationState


def test_each_field_is_changed_in_its_own_place():
    """The place of a field is named after it, whatever is added between."""
    fields = OperationState._fields
    assert [getattr(state, f"_{name.upper()}") for name in fields] == list(range(len(fields)))
