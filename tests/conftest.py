"""Fixtures for all tests."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Tests marked ``anyio`` run under both."""
    name: str = request.param
    return name
