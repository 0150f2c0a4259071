# SPDX-License-Identifier: Apache-2.0
"""Tests that the first attempt of a job that claims a name gets it."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
from toy_source import fresh_store

from connectors_core.engine.execution.claims import Claims
from connectors_core.engine.protocol import claims_path
from connectors_core.engine.state import StateStore
from connectors_core.errors import ConfigurationError


def claims_of(store, epoch=3, sink="out", job="j"):
    return Claims(store=store, folder=claims_path(epoch, sink, job))


@pytest.fixture(params=["memory", "disk"])
def store(request, tmp_path):
    return fresh_store() if request.param == "memory" else StateStore(str(tmp_path))


def test_a_name_is_given_once_and_never_again(store):
    claims = claims_of(store)
    assert claims("tx-0")
    assert not claims("tx-0")
    assert not pickle.loads(pickle.dumps(claims))("tx-0")
    assert claims("tx-1")


def test_of_many_attempts_at_once_one_gets_it(store):
    with ThreadPoolExecutor(8) as pool:
        given = list(pool.map(lambda _: claims_of(store)("tx-0"), range(32)))
    assert given.count(True) == 1


def test_another_job_sink_or_epoch_has_names_of_its_own(store):
    assert claims_of(store)("tx-0")
    assert claims_of(store, job="other")("tx-0")
    assert claims_of(store, sink="other")("tx-0")
    assert claims_of(store, epoch=4)("tx-0")


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".a", "a/b", "../a", "a\\b", "a\0", "ü", "a" * 201]
)
def test_what_is_no_plain_name_is_refused(store, name):
    with pytest.raises(ConfigurationError, match="cannot be claimed"):
        claims_of(store)(name)


def test_an_answer_that_came_late_does_not_lose_the_name(store, monkeypatch):
    """The client of an object store repeats a request, and finds what the first one created."""

    def create(self, path, data, *, durable):
        real(self, path, data, durable=durable)
        return False

    real = StateStore.create
    monkeypatch.setattr(StateStore, "create", create)
    assert claims_of(store)("tx-0")
    assert not claims_of(store)("tx-0")
