# SPDX-License-Identifier: Apache-2.0
"""Parts with broken options, each with the case that must detect it. See `broken_units`."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

from connectors_core.errors import InvalidOptionError
from connectors_core.errors import UnknownOptionError as Unknown
from connectors_core.options import Option, OptionSet
from connectors_core.secrets import Secret

PATH = Option("path", str, required=True, doc="Where.")
SIZE = Option("batch-size", int, default=10, doc="How many.")
PASSWORD = Option("password", Secret, doc="With what.")


@dataclass(frozen=True)
class Configured:
    path: str
    size: int
    password: Secret | None

    options = OptionSet(PATH, SIZE, PASSWORD, scope="toy source")

    @classmethod
    def from_options(cls, mapping):
        return cls.of(cls.options.parse(mapping))

    @classmethod
    def of(cls, options):
        return cls(options[PATH], options[SIZE], options.get(PASSWORD))


class RefusesAll(Configured):
    @classmethod
    def from_options(cls, mapping):
        raise InvalidOptionError("no", expected="nothing", option="path")


class WantsSmallLetters(Configured):
    @classmethod
    def from_options(cls, mapping):
        cls.options.parse(mapping)
        unknown = [
            key for key in mapping if key.lower() in cls.options and key not in cls.options.keys
        ]
        if unknown:
            raise Unknown(unknown[0], scope="toy source")
        return super().from_options(mapping)


class HoldsALock(Configured):
    def __init__(self, *values):
        super().__init__(*values)
        object.__setattr__(self, "lock", threading.Lock())


class SaysNothing(Configured):
    options = OptionSet(PATH, replace(SIZE, doc=" "), PASSWORD, scope="toy source")


class SaysNotWhere(Configured):
    options = OptionSet(PATH, SIZE, PASSWORD)


class TakesAnything(Configured):
    @classmethod
    def from_options(cls, mapping):
        return super().from_options({k: v for k, v in mapping.items() if k.lower() in cls.options})


class SuggestsNothing(Configured):
    @classmethod
    def from_options(cls, mapping):
        try:
            return super().from_options(mapping)
        except Unknown as error:
            raise Unknown(error.option or "", scope="toy source") from None


class MissesNothing(Configured):
    @classmethod
    def from_options(cls, mapping):
        return super().from_options({"path": "/tmp"} | {k.lower(): v for k, v in mapping.items()})


class TakesAnyValue(Configured):
    options = OptionSet(PATH, replace(SIZE, type=bool, default=None), PASSWORD, scope="toy source")

    @classmethod
    def from_options(cls, mapping):
        values = {k.lower(): v for k, v in mapping.items()}
        values.pop("batch-size", None)
        return cls(*[cls.options.parse(values).get(each) for each in (PATH, SIZE, PASSWORD)])


class ShowsThePassword(Configured):
    def __repr__(self):
        return f"Configured({self.password.reveal() if self.password else None})"


class ShowsThePasswordInErrors(Configured):
    @classmethod
    def from_options(cls, mapping):
        try:
            return super().from_options(mapping)
        except Unknown as error:
            error.add_note(f"given: {dict(mapping)}")
            raise


OPTIONS = {
    RefusesAll: {"test_valid_options_are_taken", "test_an_unknown_option_is_named_with_its_place"},
    WantsSmallLetters: "test_keys_are_taken_in_any_case",
    HoldsALock: "test_what_options_make_survives_pickling",
    SaysNothing: "test_every_option_is_documented",
    SaysNotWhere: "test_an_unknown_option_is_named_with_its_place",
    TakesAnything: "test_an_unknown_option_is_named_with_its_place",
    SuggestsNothing: "test_a_mistyped_option_is_recognised",
    MissesNothing: "test_a_missing_option_is_named",
    TakesAnyValue: "test_a_value_of_the_wrong_type_is_refused",
    ShowsThePassword: "test_no_secret_is_shown",  # pragma: allowlist secret
    ShowsThePasswordInErrors: "test_no_secret_is_shown",  # pragma: allowlist secret
}
