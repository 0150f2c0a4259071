# SPDX-License-Identifier: Apache-2.0
"""Tests that Ctrl-C cancels the statement that runs, and no other one."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pytest

from connectors_core.cli.sql.statement_thread import StatementCanceledError, StatementThread


class CancelableEngine:
    """Calls a function whenever a statement is canceled."""

    def __init__(self) -> None:
        self.canceled: Any = None

    def cancel(self) -> None:
        self.canceled()

    def close(self) -> None:
        pass


def interrupt(_: object = None) -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_a_statement_is_canceled_until_it_ends() -> None:
    engine, calls, over = CancelableEngine(), [0], threading.Event()

    def canceled() -> None:
        calls[0] += 1
        if calls[0] == 1:
            raise ValueError("nothing runs yet")
        over.set()

    def statement(_: object) -> None:
        interrupt()
        assert over.wait(30)

    engine.canceled = canceled
    thread = StatementThread(lambda: engine, print)  # type: ignore[arg-type, return-value]
    with pytest.raises(StatementCanceledError):
        thread.run(statement, lambda: None)
    assert calls == [2]
    thread.close()


def test_a_late_cancel_ends_before_the_next_statement() -> None:
    engine, called, order = CancelableEngine(), threading.Event(), []

    def canceled() -> None:
        called.set()
        future.result(30)  # the statement has ended
        order.append("canceled")

    def statement(_: object) -> None:
        interrupt()
        assert called.wait(30)

    engine.canceled = canceled
    thread = StatementThread(lambda: engine, print)  # type: ignore[arg-type, return-value]
    submit = thread.submit

    def submitted(function: Any) -> Any:
        nonlocal future
        future = submit(function)
        return future

    future: Any = None
    thread.submit = submitted  # type: ignore[method-assign]
    with pytest.raises(StatementCanceledError):
        thread.run(statement, lambda: None)
    order.append("returned")
    assert order == ["canceled", "returned"]
    thread.close()
