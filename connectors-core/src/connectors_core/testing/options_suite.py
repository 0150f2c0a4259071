# SPDX-License-Identifier: Apache-2.0
"""The unit suite of options: errors are clear, and secrets stay secret."""

from __future__ import annotations

import pickle
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest

from connectors_core.errors import InvalidOptionError, MissingOptionError, UnknownOptionError
from connectors_core.options import Option
from connectors_core.testing.capabilities import Capability
from connectors_core.testing.cases import ConnectorSuite, case
from connectors_core.testing.traces import assert_unseen, error_texts

CANARY: Final = "canary-7f3a9c"
_STRANGER: Final = "zzz.no-such-option"
_SHORTEST: Final = 4


class _OfFactory:
    """Return the options that the factory of a suite declares."""

    def __get__(self, suite: object, owner: type[OptionsTestSuite]) -> Any:
        return getattr(getattr(owner, "factory", None), "OPTIONS", None)


class OptionsTestSuite(ConnectorSuite):
    """Cases for a source, a sink, or any other class with ``from_options``.

    Attributes:
        factory: The class, whose ``from_options`` takes a mapping of values by key.
        options: The declared options. Those of a ``Configured`` class are known.
    """

    factory: ClassVar[Any]
    options: ClassVar[Any] = _OfFactory()

    @abstractmethod
    def valid_options(self, folder: Path) -> Mapping[str, Any]:
        """Return valid options, at least the required ones. ``folder`` belongs to the case."""

    @pytest.fixture
    def valid(self, tmp_path: Path) -> dict[str, Any]:
        """The connector's valid options."""
        return dict(self.valid_options(tmp_path))

    @case()
    def test_valid_options_are_taken(self, valid: dict[str, Any]) -> None:
        self.factory.from_options(valid)

    @case(after="test_valid_options_are_taken")
    def test_keys_are_taken_in_any_case(self, valid: dict[str, Any]) -> None:
        """Spark lowercases option keys, and users write them in any case."""
        self.factory.from_options({key.upper(): value for key, value in valid.items()})

    @case(after="test_valid_options_are_taken")
    def test_what_options_make_survives_pickling(self, valid: dict[str, Any]) -> None:
        made = self.factory.from_options(valid)
        assert type(pickle.loads(pickle.dumps(made))) is type(made)

    @case()
    def test_every_option_is_documented(self) -> None:
        silent = [option.key for option in self.options if not option.doc.strip()]
        assert not silent, f"options without documentation: {', '.join(silent)}"

    @case()
    def test_an_unknown_option_is_named_with_its_place(self, valid: dict[str, Any]) -> None:
        with pytest.raises(UnknownOptionError) as refused:
            self.factory.from_options(valid | {_STRANGER: "1"})
        text = str(refused.value)
        assert _STRANGER in text
        assert self.options.scope, "the options have no scope, which errors should name"
        assert self.options.scope in text, "the error does not name the scope of the option"

    @case(after="test_an_unknown_option_is_named_with_its_place")
    def test_a_mistyped_option_is_recognised(self, valid: dict[str, Any]) -> None:
        for option in self.options:
            if option.is_prefix or len(option.key) < _SHORTEST:
                continue
            middle = len(option.key) // 2
            mistyped = option.key[:middle] + option.key[middle + 1 :]
            if mistyped in self.options:
                continue
            with pytest.raises(UnknownOptionError) as refused:
                self.factory.from_options(valid | {mistyped: "1"})
            assert option.key in (refused.value.hint or ""), (
                f"{mistyped!r} is not recognized as {option.key!r}: {refused.value.hint}"
            )

    @case(after="test_valid_options_are_taken")
    def test_a_missing_option_is_named(self, valid: dict[str, Any]) -> None:
        for option in self.options:
            if option.required:
                left = {key: each for key, each in valid.items() if key.lower() != option.key}
                with pytest.raises(MissingOptionError) as refused:
                    self.factory.from_options(left)
                assert refused.value.option == option.key

    @case(after="test_valid_options_are_taken")
    def test_a_value_of_the_wrong_type_is_refused(self, valid: dict[str, Any]) -> None:
        for option in self.options:
            key = _stem(option)
            others = {each: value for each, value in valid.items() if each.lower() != key}
            with pytest.raises(InvalidOptionError) as refused:
                self.factory.from_options(others | {key: _Wrong()})
            assert refused.value.option == option.key, (
                f"the error names the option {refused.value.option}"
            )
            assert refused.value.expected, f"{key}: the error has no expected value"
            if not option.secret:
                assert "WRONG" in str(refused.value), f"{key}: the error has no found value"

    @case(
        Capability.SECRETS,
        after=(
            "test_an_unknown_option_is_named_with_its_place",
            "test_a_value_of_the_wrong_type_is_refused",
        ),
    )
    def test_no_secret_is_shown(self, valid: dict[str, Any], tmp_path: Path) -> None:
        """Neither the object nor any error shows it, even an error about another option."""
        secret = [option for option in self.options if option.secret]
        assert secret, "no option is declared as secret: move SECRETS to `cannot`"
        for option in secret:
            key = f"{_stem(option)}.password" if option.is_prefix else option.key
            given = valid | {key: CANARY}
            seen = [repr(self.options.parse(given))]
            for more in ({}, {_STRANGER: "1"}, {_stem(option): _Wrong(CANARY)}):
                try:
                    made = self.factory.from_options(given | more)
                    seen += [repr(made), str(made)]
                except Exception as error:  # other cases show that it is one
                    seen += error_texts(error)
            assert_unseen([CANARY], seen, tmp_path)


class _Wrong:
    """A value whose type no option accepts."""

    def __init__(self, text: str = "") -> None:
        self._text = text

    def __repr__(self) -> str:
        return f"WRONG{self._text}"


def _stem(option: Option[Any]) -> str:
    return option.key.removesuffix(".*")
