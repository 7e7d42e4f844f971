"""Notebooks that are executed from a shell: real kernels, a real command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.desk import HAPPEN, Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture
def happen() -> str:
    return HAPPEN


Make = Callable[..., Path]
