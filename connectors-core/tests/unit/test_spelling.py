# SPDX-License-Identifier: Apache-2.0
"""An error names an option as the caller spelled it."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import pytest

from connectors_core.errors import ConnectorError, InvalidOptionError
from connectors_core.options import Option, OptionSet, positive
from connectors_core.spelling import keyword_of, spell, spelled_in_python

POLL: Option[int] = Option("scan.poll-interval", int, validator=positive, doc="How often.")
FIELDS: Option[int] = Option("value.fields-include", int, validator=positive, doc="Which.")
OPTIONS = OptionSet(POLL, FIELDS, scope="test")


@spelled_in_python({"value.fields-include": "value_fields"})
@dataclass(frozen=True)
class Made:
    """A part that is made by keywords, or of options."""

    poll_interval: Any = 1
    value_fields: Any = 1

    def __post_init__(self) -> None:
        POLL.parse(self.poll_interval)
        FIELDS.parse(self.value_fields)
        if self.poll_interval == 13:
            raise InvalidOptionError(
                "unlucky", option=POLL.key, hint="set 'scan.poll-interval' to another number"
            )

    @classmethod
    def from_options(cls, given: dict[str, Any]) -> Made:
        """Make one of options."""
        return cls(given.get(POLL.key, 1), given.get(FIELDS.key, 1))


@pytest.mark.parametrize(
    ("keywords", "shown"),
    [({"poll_interval": 0}, "poll_interval"), ({"value_fields": 0}, "value_fields")],
)
def test_a_keyword_is_shown_to_whom_gave_one(keywords: dict[str, Any], shown: str) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        Made(**keywords)
    error: ConnectorError = pickle.loads(pickle.dumps(refused.value))
    assert f"the value of '{shown}' cannot be used" in str(error)
    assert f"  option: {shown}\n" in str(error) + "\n"
    assert error.option in (POLL.key, FIELDS.key), "programs see the key"


def test_hints_use_the_same_spelling() -> None:
    with pytest.raises(InvalidOptionError, match="set 'poll_interval' to another"):
        Made(13)


def test_a_key_is_shown_to_whom_gave_options() -> None:
    with pytest.raises(InvalidOptionError, match=r"the value of 'scan\.poll-interval'") as refused:
        Made.from_options({"scan.poll-interval": 0})
    assert "poll_interval" not in str(refused.value)
    with pytest.raises(InvalidOptionError, match="'poll_interval'"):
        Made(0)  # what was made of options before changes nothing


@pytest.mark.parametrize(
    ("key", "keyword"),
    [
        ("scan.poll-interval", "poll_interval"),
        ("commit.offsets.on.checkpoint", "commit_offsets_on_checkpoint"),
        ("sink.discovery-interval", "discovery_interval"),
        ("properties.*", "properties"),
        ("spoll-interval", None),
        ("something.else", None),
    ],
)
def test_a_keyword_is_the_end_of_its_key(key: str, keyword: str | None) -> None:
    keywords = [
        "interval_",
        "poll_interval",
        "discovery_interval",
        "commit_offsets_on_checkpoint",
        "properties",
    ]
    assert keyword_of(key, keywords) == keyword


class Task:
    """Something that a part makes, and that fails later."""

    def fail(self) -> None:
        raise InvalidOptionError("late", option=POLL.key, hint="lower scan.poll-interval-x or it")


class Holder:
    """A part that holds another one."""

    def __init__(self, held: Any) -> None:
        self.held = held


@pytest.mark.parametrize(
    ("parts", "shown"),
    [
        ([Made()], "poll_interval"),
        ([pickle.loads(pickle.dumps(Made()))], "poll_interval"),
        ([Holder(Holder(Made()))], "poll_interval"),
        ([Made.from_options({})], POLL.key),
        ([Made(), Made.from_options({})], POLL.key),
        ([Holder(Made.from_options({})), object()], POLL.key),
        ([], POLL.key),
    ],
)
def test_an_error_that_comes_later_is_spelled_as_the_parts_were_made(
    parts: list[Any], shown: str
) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        Task().fail()
    wrapped = ConnectorError("the pipeline failed", option=POLL.key)
    wrapped.__cause__ = refused.value
    spell(wrapped, parts)
    for error in (wrapped, refused.value):
        assert f"\n  option: {shown}" in str(error)
        assert error.option == POLL.key
    assert "lower scan.poll-interval-x or it" in str(refused.value)
