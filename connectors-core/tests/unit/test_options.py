# SPDX-License-Identifier: Apache-2.0
"""Tests that one declaration of an option serves validation, documentation, and suggestions."""

from __future__ import annotations

import pickle
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors_core.annotations import (
    ConnectorDeprecationWarning,
    Stability,
    deprecated,
    experimental,
    stability_of,
)
from connectors_core.errors import (
    ConfigurationError,
    InvalidOptionError,
    MissingOptionError,
    UnknownOptionError,
)
from connectors_core.options import (
    DURATION,
    MEMORY_SIZE,
    Option,
    OptionSet,
    at_least,
    between,
    format_duration,
    format_memory_size,
    list_of,
    not_empty,
    parse_duration,
    parse_memory_size,
    positive,
)
from connectors_core.secrets import MASK, Secret


class Startup(StrEnum):
    EARLIEST = "earliest-offset"
    LATEST = "latest-offset"


TOPICS = Option("topics", list_of(str), doc="Topics to read.", required=True, validator=not_empty)
STARTUP = Option(
    "scan.startup.mode",
    Startup,
    default=Startup.EARLIEST,
    doc="Where to begin | where none is stored.",
    since="1.0.0",
    aliases=("startingOffsets", "auto.offset.reset"),
)
SIZE = Option("fetch.max.bytes", MEMORY_SIZE, default=50 << 20, doc="Size of a fetch.")
TIMEOUT = Option("timeout", DURATION, default=timedelta(seconds=30), doc="Patience.")
WORKERS = Option(
    "workers", int, default=2, doc="Threads.", validator=positive, deprecated_keys=("numWorkers",)
)
RATIO = Option[float]("ratio", float, doc="A share.", validator=at_least(0))
PASSWORD = Option("password", Secret, doc="Password.")
CHECK = Option("check", bool, default=True, doc="Whether to check.")
ACKS = Option("acks", str, default="all", doc="Confirmations.", choices=("0", "1", "all"))
LABELS = Option("labels", dict, doc="Labels.")
PROPERTIES = Option("properties.*", dict, doc="Passed on to the client.")
ALL = OptionSet(
    TOPICS,
    STARTUP,
    SIZE,
    TIMEOUT,
    WORKERS,
    RATIO,
    PASSWORD,
    CHECK,
    ACKS,
    LABELS,
    PROPERTIES,
    scope="Kafka source",
)


def test_strings_from_spark_become_typed_values() -> None:
    options = ALL.parse(
        {
            "topics": "a, b",
            "SCAN.Startup.Mode": "LATEST_OFFSET",
            "fetch.max.bytes": "1.5mb",
            "timeout": "1h 30 min",
            "workers": " 3 ",
            "ratio": "0.5",
            "password": "hunter2",  # pragma: allowlist secret
            "check": "False",
            "acks": "1",
            "labels": '{"a": [1]}',
            "properties.Client.Id": "x",
        }
    )
    assert options[TOPICS] == ("a", "b")
    assert options[STARTUP] is Startup.LATEST
    assert options[SIZE] == 3 << 19
    assert options[TIMEOUT] == timedelta(minutes=90)
    assert options[WORKERS] == 3
    assert options[RATIO] == 0.5
    assert options[PASSWORD] == Secret("hunter2")
    assert options[CHECK] is False
    assert options[ACKS] == "1"
    assert options[LABELS] == {"a": [1]}
    assert options[PROPERTIES] == {"Client.Id": "x"}


def test_defaults_apply_and_are_distinguished_from_given_values() -> None:
    options = ALL.parse({"topics": ["a"], "workers": None})
    assert options[WORKERS] == 2
    assert not options.is_given(WORKERS)
    assert options.is_given(TOPICS)
    assert options.get(PASSWORD) is None
    assert options[PROPERTIES] == {}
    with pytest.raises(MissingOptionError, match="ratio"):
        options[RATIO]


@pytest.mark.parametrize(
    ("given_key", "meant"),
    [
        ("topic", "topics"),
        ("startingOffsets", "scan.startup.mode"),
        ("auto-offset-reset", "scan.startup.mode"),
        ("scanStartupMode", "scan.startup.mode"),
        ("fetch_max_bytes", "fetch.max.bytes"),
        ("time.out", "timeout"),
    ],
)
def test_an_unknown_key_is_answered_with_suggestions(given_key: str, meant: str) -> None:
    with pytest.raises(UnknownOptionError) as caught:
        ALL.parse({"topics": "a", given_key: "x"})
    assert caught.value.suggestions[0] == meant
    assert caught.value.known == ALL.keys
    assert "Kafka source" in str(caught.value)


def test_a_key_like_no_other_gets_the_known_keys_instead_of_a_suggestion() -> None:
    with pytest.raises(UnknownOptionError) as caught:
        ALL.parse({"topics": "a", "zzz": "x"})
    assert caught.value.suggestions == ()
    assert "scan.startup.mode" in str(caught.value)


@pytest.mark.parametrize("given_options", ["all", ["topics"], 5])
def test_options_that_are_no_mapping_are_refused(given_options: Any) -> None:
    with pytest.raises(InvalidOptionError, match="the options for Kafka source") as caught:
        ALL.parse(given_options)
    assert caught.value.expected == "a mapping, such as {'topics': ...}"
    assert caught.value.found == type(given_options).__name__


@pytest.mark.parametrize("key", ["value.json.ignore-parse-errors", "csv.Ignore-Parse-Errors"])
def test_one_hint_answers_all_keys_that_end_alike(key: str) -> None:
    options = OptionSet(CHECK, elsewhere={"*.ignore-parse-errors": "skip them"})
    with pytest.raises(UnknownOptionError, match="hint: skip them"):
        options.parse({key: "true"})
    with pytest.raises(UnknownOptionError, match="known options"):
        options.parse({"ignore-parse-errors": "true"})


def test_the_connector_of_flinks_sql_is_answered_by_every_set() -> None:
    with pytest.raises(UnknownOptionError, match="the class names the connector; remove it"):
        ALL.parse({"connector": "kafka"})


def test_a_missing_required_option_shows_its_purpose() -> None:
    with pytest.raises(MissingOptionError, match="Topics to read"):
        ALL.parse({})


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("workers", "three", "whole number"),
        ("workers", True, "whole number"),
        ("workers", 1.5, "whole number"),
        ("workers", 0, "above zero"),
        ("timeout", "5", "unit"),
        ("timeout", 5, "unit"),
        ("timeout", "5 parsecs", "unit"),
        ("timeout", "99999999999999 d", "duration"),
        ("fetch.max.bytes", "5 apples", "size"),
        ("fetch.max.bytes", -1, "size"),
        ("ratio", "nan", "finite"),
        ("ratio", -0.1, "at least 0"),
        ("check", "maybe", "true or false"),
        ("acks", "2", "one of 0, 1, all"),
        ("acks", 1, "a text"),
        ("scan.startup.mode", "middle", "earliest-offset, latest-offset"),
        ("labels", "[1]", "mapping"),
        ("topics", "", "not empty"),
        ("topics", "[1", "list"),
        ("topics", 3, "list"),
        ("properties", 3, "mapping"),
    ],
)
def test_an_invalid_value_shows_what_was_expected(key: str, value: object, expected: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        ALL.parse({"topics": "a", key: value})
    assert expected in (caught.value.expected or "")
    assert caught.value.option in (key, f"{key}.*")


def test_all_invalid_options_are_named_at_once() -> None:
    with pytest.raises(UnknownOptionError) as caught:
        ALL.parse({"wokers": 1, "timeout": "5"})
    notes = "\n".join(caught.value.__notes__)
    assert "timeout" in notes
    assert "topics" in notes


def test_one_option_under_two_spellings_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="given twice"):
        ALL.parse({"topics": "a", "Topics": "b"})
    with pytest.raises(InvalidOptionError, match="given twice"):
        ALL.parse({"topics": "a", "properties": {"x": 1}, "properties.x": 2})


def test_a_map_option_may_be_given_as_a_whole() -> None:
    options = ALL.parse({"topics": "a", "properties": {"x": "1"}, "properties.y.z": "2"})
    assert options[PROPERTIES] == {"x": "1", "y.z": "2"}


def test_a_former_key_still_works_and_warns() -> None:
    with pytest.warns(ConnectorDeprecationWarning, match="workers"):
        assert ALL.parse({"topics": "a", "numWorkers": "4"})[WORKERS] == 4


def test_a_copy_of_an_option_gets_a_version_unless_it_has_one() -> None:
    declared: Option[str] = Option("topics", str, doc="Topics.")
    first = declared.introduced("1.0.0", again=False)
    assert first.introduced("2.0.0", again=False).since == "1.0.0"
    assert first.introduced("2.0.0", again=True).since == "2.0.0"
    assert declared.since is None
    with pytest.warns(ConnectorDeprecationWarning, match="introduced"):
        declared.introduce("3.0.0")
    assert declared.since == "3.0.0"


def test_secrets_appear_in_no_message_table_or_repr() -> None:
    pin = Option("pin", int, default=4321, doc="Pin.", secret=True)
    options = OptionSet(PASSWORD, pin, PROPERTIES)
    parsed = options.parse(
        # pragma: allowlist nextline secret
        {"password": "hunter2", "pin": 1234, "properties.ssl.key.password": "hunter3"}
    )
    shown = repr(parsed) + str(parsed.describe()) + options.markdown() + str(options.describe())
    assert "hunter" not in shown
    assert "1234" not in shown
    assert "4321" not in shown
    assert parsed.describe()["password"] == MASK
    with pytest.raises(InvalidOptionError) as caught:
        options.parse({"pin": "98x76"})
    assert "98x76" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_parsed_options_can_be_pickled_and_are_immutable() -> None:
    options = ALL.parse({"topics": "a", "password": "p"})
    assert pickle.loads(pickle.dumps(options)) == options
    with pytest.raises(AttributeError):
        options.given = frozenset()  # type: ignore[misc]


def test_the_table_for_the_documentation_has_a_row_per_option_in_order() -> None:
    rows = ALL.markdown().splitlines()
    assert len(rows) == 2 + len(ALL)
    assert rows[2] == (
        "| `topics` | list of strings, not empty | **required** |  | Topics to read. |"
    )
    assert rows[3] == (
        "| `scan.startup.mode` | enum | `earliest-offset` | 1.0.0 | Where to begin \\| where none "
        "is stored. One of: earliest-offset, latest-offset. |"
    )
    assert "`50mb`" in rows[4]
    assert "`30 s`" in rows[5]


def test_the_table_shows_units_and_bounds() -> None:
    rows = OptionSet(
        Option("rows", int, default=5, doc="Rows.", unit="rows", validator=positive),
        Option("age", timedelta, doc="Age.", validator=at_least(timedelta(seconds=1))),
        Option("share", int, doc="Share.", unit="%", validator=between(0, 100)),
    ).markdown()
    assert rows.splitlines()[2:] == [
        "| `rows` | integer (rows), above 0 | `5` |  | Rows. |",
        "| `age` | duration, at least 1 s | (none) |  | Age. |",
        "| `share` | integer (%), 0 to 100 | (none) |  | Share. |",
    ]


def test_the_table_distinguishes_an_empty_default_from_none() -> None:
    rows = OptionSet(Option("a", str, doc="A."), Option("b", str, default="", doc="B.")).markdown()
    assert rows.splitlines()[2:] == [
        "| `a` | string | (none) |  | A. |",
        "| `b` | string | (empty) |  | B. |",
    ]


def test_an_invalid_declaration_is_refused() -> None:
    wrong: list[Any] = [
        lambda: Option("Camel", str, doc=""),
        lambda: Option("a", str, doc="", required=True, default="x"),
        lambda: Option("a.*", str, doc=""),
        lambda: Option[Any]("a", object, doc=""),
        lambda: OptionSet(CHECK, CHECK),
        lambda: OptionSet(WORKERS, Option("numworkers", int, doc="")),
    ]
    for declare in wrong:
        with pytest.raises(ConfigurationError):
            declare().parse({})


def test_option_sets_can_be_extended_and_queried() -> None:
    more = OptionSet(CHECK).extended(ACKS, scope="sink")
    assert more.keys == ("check", "acks")
    assert "ACKS" in more
    assert "topics" not in more


def test_a_path_is_accepted_as_text() -> None:
    assert Option("path", str, doc="").parse(Path("/a/b")) == "/a/b"


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=10_000)))
def test_a_formatted_duration_is_parsed_back(value: timedelta) -> None:
    assert parse_duration(format_duration(value)) == value


@given(st.integers(min_value=0, max_value=2**62))
def test_a_formatted_size_is_parsed_back(value: int) -> None:
    assert parse_memory_size(format_memory_size(value)) == value


def test_stability_marks_are_not_inherited() -> None:
    @experimental
    class Trial:
        pass

    class Users(Trial):
        pass

    assert stability_of(Trial) is Stability.EXPERIMENTAL
    assert stability_of(Users) is None
    assert stability_of(3) is None


def test_a_deprecated_object_works_and_warns_once(recwarn: pytest.WarningsRecorder) -> None:
    @deprecated(since="1.2.0", removal="2.0.0", instead="new()")
    def old(value: int) -> int:
        """Double it."""
        return 2 * value

    @deprecated(since="1.2.0")
    class Old:
        def __init__(self, value: int) -> None:
            self.value = value

    assert [old(1), old(2)] == [2, 4]
    assert [Old(1).value, Old(2).value] == [1, 2]
    assert len(recwarn) == 2
    warning: Any = recwarn[0].message
    assert isinstance(warning, ConnectorDeprecationWarning)
    assert (warning.since, warning.removal) == ("1.2.0", "2.0.0")
    assert "use new() instead" in str(warning)
    assert recwarn[0].filename == __file__
    assert recwarn[1].filename == __file__
    assert old.__doc__ == "Double it."
    assert stability_of(Old) is Stability.DEPRECATED


@pytest.mark.parametrize(
    "value",
    [
        '{"sasl.password": "canary-7"',  # pragma: allowlist secret
        ["sasl.password=canary-7"],  # pragma: allowlist secret
        {1: "canary-7"},
    ],
)
def test_an_error_about_a_map_does_not_show_it(value) -> None:
    options = OptionSet(Option("properties.*", dict, doc="Options of the client."))
    with pytest.raises(InvalidOptionError, match="not shown") as refused:
        options.parse({"properties": value})
    assert "canary-7" not in str(refused.value)
