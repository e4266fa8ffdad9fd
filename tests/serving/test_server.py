"""Ports: the first that is free, or the one that was asked for and no other."""

import socket

import pytest

from clew.core.errors import UserError
from clew.serving.server import FIRST_PORT, HOST, listen


def test_a_port_that_is_taken_is_passed_over_where_none_was_asked_for() -> None:
    with listen() as first, listen() as second:
        assert first.getsockname()[0] == HOST
        assert first.getsockname()[1] != second.getsockname()[1] and second.getsockname()[1] >= FIRST_PORT


def test_a_port_that_was_asked_for_and_is_taken_is_refused() -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"port {port} is in use; choose another with --port, or leave it out"):
            listen(port)


@pytest.mark.parametrize("port", [-1, 65536, 10**9])
def test_what_is_no_port_is_refused(port: int) -> None:
    with pytest.raises(UserError, match=f"a port is between 0 and 65535, not {port}"):
        listen(port)
