# SPDX-License-Identifier: Apache-2.0
"""Tests that only the first attempt of a job that claims a name gets it."""

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


def test_a_name_is_claimed_only_once(store):
    claims = claims_of(store)
    assert claims("tx-0")
    assert not claims("tx-0")
    assert not pickle.loads(pickle.dumps(claims))("tx-0")
    assert claims("tx-1")


def test_exactly_one_of_many_concurrent_attempts_gets_a_name(store):
    with ThreadPoolExecutor(8) as pool:
        given = list(pool.map(lambda _: claims_of(store)("tx-0"), range(32)))
    assert given.count(True) == 1


def test_names_of_other_jobs_sinks_and_epochs_are_separate(store):
    assert claims_of(store)("tx-0")
    assert claims_of(store, job="other")("tx-0")
    assert claims_of(store, sink="other")("tx-0")
    assert claims_of(store, epoch=4)("tx-0")


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".a", "a/b", "../a", "a\\b", "a\0", "ü", "a" * 201]
)
def test_an_invalid_name_is_refused(store, name):
    with pytest.raises(ConfigurationError, match="cannot be claimed"):
        claims_of(store)(name)


def test_a_lost_response_does_not_lose_the_claim(store, monkeypatch):
    """The object store client repeats the request and finds the object of the first attempt."""

    def create(self, path, data, *, durable):
        real(self, path, data, durable=durable)
        return False

    real = StateStore.create
    monkeypatch.setattr(StateStore, "create", create)
    assert claims_of(store)("tx-0")
    assert not claims_of(store)("tx-0")
