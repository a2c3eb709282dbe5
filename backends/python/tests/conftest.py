"""Fixtures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from client import Client
from servers import KINDS, serving

from extender_policy import Backend, Options, Policy

Serve = Callable[..., Client]


@pytest.fixture(params=KINDS)
def serve(request: pytest.FixtureRequest) -> Iterator[Serve]:
    """A client of a policy that is served; each test runs with both servers."""
    with ExitStack() as open_servers:

        def served(backend: Backend | Policy, options: Options | None = None) -> Client:
            address = open_servers.enter_context(serving(request.param, backend, options))
            return open_servers.enter_context(Client(address))

        yield served
