# SPDX-License-Identifier: Apache-2.0
"""Tests that secrets are detected in any place, and that unfinished coroutines are detected."""

from __future__ import annotations

import asyncio
import base64
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors_core.clients.event_loop import submit
from connectors_core.testing.traces import assert_unseen, nothing_left


@given(before=st.binary(max_size=8), after=st.binary(max_size=8))
def test_a_secret_is_detected_inside_base64_text(before, after, tmp_path_factory):
    text = base64.b64encode(before + b"canary-5e0b" + after).decode()
    with pytest.raises(AssertionError, match="a secret can be seen"):
        assert_unseen(["canary-5e0b"], [text], tmp_path_factory.getbasetemp() / "none")


def test_a_secret_is_detected_in_a_file_and_not_repeated(tmp_path):
    (tmp_path / "a").write_text("nothing")
    assert_unseen(["canary-5e0b"], ["nothing"], tmp_path)
    (tmp_path / "b").write_text("password=canary-5e0b")
    with pytest.raises(AssertionError, match=r"a secret is visible in .*/b") as failure:
        assert_unseen(["canary-5e0b"], [], tmp_path)
    assert "canary" not in str(failure.value).splitlines()[0]


def test_a_search_for_no_secret_is_refused(tmp_path):
    with pytest.raises(AssertionError, match="the context names no secret"):
        assert_unseen([], ["nothing"], tmp_path)


def test_an_unfinished_coroutine_is_detected(tmp_path):
    begun = threading.Event()
    hanging = []

    async def hang():
        begun.set()
        await asyncio.Event().wait()

    def leave_it():
        hanging.append(submit(hang()))
        assert begun.wait(20)

    with (
        pytest.raises(AssertionError, match="coroutines that still run"),
        nothing_left(tmp_path / "temporary"),
    ):
        leave_it()
    hanging[0].cancel()


def test_the_event_loop_of_the_process_does_not_count_as_a_leftover(tmp_path):
    with nothing_left(tmp_path / "temporary"):
        submit(asyncio.sleep(0)).result(20)
