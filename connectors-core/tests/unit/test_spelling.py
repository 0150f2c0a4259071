# SPDX-License-Identifier: Apache-2.0
"""Tests that an error names an option as the caller spelled it."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from connectors_core.errors import ConnectorError, InvalidOptionError
from connectors_core.options import Configured, Setting, option, positive
from connectors_core.options.spelling import spell

POLL = "scan.poll-interval"


class Made(Configured, scope="test"):
    """A part that is created with keywords or from options."""

    poll_interval: Setting[int] = option(
        POLL, int, kw_only=False, default=1, validator=positive, doc="How often."
    )
    value_fields: Setting[int] = option(
        "value.fields-include", int, default=1, validator=positive, doc="Which."
    )

    def __post_init__(self) -> None:
        if self.poll_interval == 13:
            raise InvalidOptionError(
                "unlucky", option=POLL, hint="set 'scan.poll-interval' to another number"
            )


@pytest.mark.parametrize(
    ("keywords", "shown"),
    [({"poll_interval": 0}, "poll_interval"), ({"value_fields": 0}, "value_fields")],
)
def test_a_caller_that_passed_a_keyword_sees_the_keyword(
    keywords: dict[str, Any], shown: str
) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        Made(**keywords)
    error: ConnectorError = pickle.loads(pickle.dumps(refused.value))
    assert f"the value of '{shown}' cannot be used" in str(error)
    assert f"  option: {shown}\n" in str(error) + "\n"
    assert error.option in (POLL, "value.fields-include"), "programs see the key"


def test_hints_use_the_same_spelling() -> None:
    with pytest.raises(InvalidOptionError, match="set 'poll_interval' to another"):
        Made(13)


class Together(Made):
    """A part whose options exclude each other."""

    def __post_init__(self) -> None:
        raise InvalidOptionError(
            "unclear", expected="'scan.poll-interval' or 'value.fields-include'", option=POLL
        )


def test_an_error_spells_all_options_that_it_names_alike() -> None:
    with pytest.raises(InvalidOptionError, match="expected: 'poll_interval' or 'value_fields'"):
        Together()
    with pytest.raises(InvalidOptionError, match=f"expected: '{POLL}' or 'value.fields-include'"):
        Together.from_options({})


def test_a_caller_that_passed_options_sees_the_key() -> None:
    with pytest.raises(InvalidOptionError, match=r"the value of 'scan\.poll-interval'") as refused:
        Made.from_options({"scan.poll-interval": 0})
    assert "poll_interval" not in str(refused.value)
    with pytest.raises(InvalidOptionError, match="'poll_interval'"):
        Made(0)  # earlier options have no effect


class Task:
    """An object that a part creates and that fails later."""

    def fail(self) -> None:
        raise InvalidOptionError("late", option=POLL, hint="lower scan.poll-interval-x or it")


class Holder:
    """A part that contains another one."""

    def __init__(self, held: Any) -> None:
        self.held = held


@pytest.mark.parametrize(
    ("parts", "shown"),
    [
        ([Made()], "poll_interval"),
        ([pickle.loads(pickle.dumps(Made()))], "poll_interval"),
        ([Holder(Holder(Made()))], "poll_interval"),
        ([Made.from_options({})], POLL),
        ([Made(), Made.from_options({})], POLL),
        ([Holder(Made.from_options({})), object()], POLL),
        ([], POLL),
    ],
)
def test_a_later_error_is_spelled_as_the_parts_were_created(parts: list[Any], shown: str) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        Task().fail()
    wrapped = ConnectorError("the pipeline failed", option=POLL)
    wrapped.__cause__ = refused.value
    spell(wrapped, parts)
    for error in (wrapped, refused.value):
        assert f"\n  option: {shown}" in str(error)
        assert error.option == POLL
    assert "lower scan.poll-interval-x or it" in str(refused.value)


class AnswersToAnyName:
    """Behaves like an object of the JVM."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"asked for {name}")


def test_an_object_that_claims_to_have_every_attribute_is_not_queried() -> None:
    error = ConnectorError("it failed", option="rows")
    spell(error, [{"held": 1}, (object.__new__(AnswersToAnyName),)])
    assert error.keyword is None
