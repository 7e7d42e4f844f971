"""Names of values for parametrised tests, of which the long run takes all."""

import pytest

from support.value_table import KEPT

#: The names of `KEPT`; what takes seconds each time is left to the long run, and `test_case_68_71`.
QUICKLY_KEPT = [
    pytest.param(name, marks=pytest.mark.slow) if name == "1,000 models" else name for name in KEPT
]
