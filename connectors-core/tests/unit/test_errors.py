# SPDX-License-Identifier: Apache-2.0
"""Tests that errors contain a hint and survive pickling."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from connectors_core import errors
from connectors_core.errors import (
    BadRecordError,
    ConfigurationError,
    ConnectorError,
    FatalError,
    ForeignError,
    IdentityError,
    LeaseError,
    MissingDependencyError,
    MissingOptionError,
    RetryableError,
    SparkMismatchError,
    StateCorruptedError,
    UnknownOptionError,
)

EXAMPLES: dict[type[ConnectorError], Callable[[], ConnectorError]] = {
    BadRecordError: lambda: BadRecordError(
        "no closing quote", split_id="file-1", position="line 7", raw=b'a,"b', option="format"
    ),
    IdentityError: lambda: IdentityError(
        "order changed", expected=["a", "b"], found=["b", "a"], ways_out=["go back", "start again"]
    ),
    LeaseError: lambda: LeaseError("held", holder={"host": "h", "pid": 3}, found="h, 3"),
    MissingDependencyError: lambda: MissingDependencyError(
        "avro", install="pip install 'connector-kafka[avro]'", feature="the format avro"
    ),
    MissingOptionError: lambda: MissingOptionError("topics", doc="topics to read", scope="kafka"),
    RetryableError: lambda: RetryableError("busy", retry_after=1.5, found="status 429"),
    SparkMismatchError: lambda: SparkMismatchError(
        "connector-kafka", "3.1.2", built="3.5", pyspark="4.3.0"
    ),
    UnknownOptionError: lambda: UnknownOptionError(
        "topcs", suggestions=["topics"], known=["topics", "group.id"]
    ),
    ForeignError: lambda: ForeignError("X()", type_name="m.X", traceback_text="Traceback ..."),
}
CLASSES = [
    getattr(errors, name)
    for name in errors.__all__
    if issubclass(getattr(errors, name), ConnectorError)
]


def example(kind: type[ConnectorError]) -> ConnectorError:
    make = EXAMPLES.get(kind)
    if make is not None:
        return make()
    return kind("it broke", expected="a", found="b", option="o.p", hint="do c", code="SPECIAL")


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_survives_pickling_with_all_attributes(kind: type[ConnectorError]) -> None:
    error = example(kind)
    error.add_note("while reading")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert vars(copy) == vars(error)
    assert str(copy) == str(error)
    assert copy.args == error.args


def test_codes_are_stable_and_distinct() -> None:
    codes = {kind.code for kind in CLASSES}
    assert len(codes) == len(CLASSES)


def test_the_text_contains_expected_found_option_and_hint() -> None:
    error = ConfigurationError("too small", expected="1", found=0, option="scan.size", hint="raise")
    assert str(error).splitlines() == [
        "[CONFIGURATION] too small",
        "  expected: 1",
        "  found: 0",
        "  option: scan.size",
        "  hint: raise",
    ]


def test_errors_derive_from_the_nearest_builtin_exception() -> None:
    assert isinstance(example(ConfigurationError), ValueError)
    assert isinstance(example(MissingDependencyError), ImportError)
    assert isinstance(example(BadRecordError), ValueError)
    assert not isinstance(example(FatalError), ValueError)


def chained(*links: BaseException) -> BaseException:
    for outer, inner in itertools.pairwise(links):
        outer.__cause__ = inner
    return links[0]


def test_the_whole_chain_of_causes_survives_pickling() -> None:
    error = chained(
        FatalError("top"),
        RetryableError("middle", retry_after=2.0),
        RuntimeError("foreign"),
        BadRecordError("deep", position="7"),
        FileNotFoundError(2, "gone", "/x"),
    )
    copy: Any = pickle.loads(pickle.dumps(error))
    middle = copy.__cause__
    assert isinstance(middle, RetryableError)
    assert middle.retry_after == 2.0
    foreign = middle.__cause__
    assert isinstance(foreign, RuntimeError)
    deep = foreign.__cause__
    assert isinstance(deep, BadRecordError)
    assert deep.position == "7"
    deepest = deep.__cause__
    assert isinstance(deepest, FileNotFoundError)
    assert deepest.filename == "/x"
    assert deepest.__cause__ is None


class DoesNotLoadError(Exception):
    def __init__(self, first: str, second: str) -> None:
        super().__init__(first)
        self.second = second


def test_a_cause_that_cannot_be_pickled_is_replaced_and_its_own_causes_are_kept() -> None:
    class LocalError(Exception):
        pass

    try:
        raise DoesNotLoadError("https://me:pass@host/", "b")  # pragma: allowlist secret
    except DoesNotLoadError as exc:
        cause = exc
    error = chained(FatalError("top"), cause, LocalError("here"), KeyError("k"))
    first: Any = pickle.loads(pickle.dumps(error)).__cause__
    assert isinstance(first, ForeignError)
    assert first.type_name.endswith("DoesNotLoadError")
    assert "raise DoesNotLoadError" in first.traceback_text
    assert "me:pass" not in str(first) + repr(first)
    assert isinstance(first.__cause__, ForeignError)
    assert isinstance(first.__cause__.__cause__, KeyError)


def test_an_attribute_that_cannot_be_pickled_is_dropped_and_the_error_arrives() -> None:
    error = FatalError("top")
    error.client = lambda: None  # type: ignore[attr-defined]
    copy = pickle.loads(pickle.dumps(error))
    assert "lambda" in copy.client
    assert copy.message == "top"


def test_a_cycle_of_causes_is_cut() -> None:
    one, two = FatalError("one"), FatalError("two")
    one.__cause__, two.__cause__ = two, one
    copy: Any = pickle.loads(pickle.dumps(one))
    assert copy.__cause__.message == "two"
    assert copy.__cause__.__cause__ is None


def test_passwords_in_urls_are_removed_from_every_text() -> None:
    url = "https://user:hunter2@host/?token=abc123"  # pragma: allowlist secret
    error = ConfigurationError(f"bad {url}", expected=url, found=[url], hint=url)
    shown = str(error) + repr(error) + repr(error.args) + repr(vars(error))
    assert "hunter2" not in shown
    assert "abc123" not in shown


def test_a_bad_record_is_kept_but_not_shown() -> None:
    error = BadRecordError("broken", raw=b"name=Ada", split_id="s", position="3")
    assert error.raw == b"name=Ada"
    assert "Ada" not in str(error) + repr(error)
    assert "split 's' at 3" in str(error)


def test_corrupted_state_is_a_fatal_error_and_not_a_configuration_error() -> None:
    assert issubclass(StateCorruptedError, FatalError)
    assert not issubclass(StateCorruptedError, ConfigurationError)
