# SPDX-License-Identifier: Apache-2.0
"""Cases and suites: marks the test methods of a suite as selectable cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeVar

from packaging.version import Version

from connectors_core.testing.capabilities import Capabilities, Capability

SUITE_VERSION: Final = "1.5"
"""The current version of the suites. A connector states the version that it was written for."""
SLOW_ON_SPARK: Final = "slow_on_spark"
"""Marker of a case, or of one of its parameters, that is mostly redundant on Spark.

A full run also executes it there.
"""
COVERED_ON_SPARK: Final = "covered_on_spark"
"""Marker of parameters whose values, one by one, other parameters of the case have on Spark.

Only ``--connector-every-pair`` also executes them there.
"""
SEPARATE_DRIVERS: Final = "separate_drivers"
"""Marker of a case that kills or freezes drivers in separate processes.

With ``--connector-share``, several runs share its slow cases, suite by suite.
"""

_CASE: Final = "__connector_case__"
_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Case:
    """The declaration of a case.

    Attributes:
        since: The suite version that introduced the case.
        needs: The capabilities that the case requires.
        after: The cases that this case presupposes. If one of them failed, this case is not judged.
        unless: The capabilities that exclude the case.
    """

    since: str
    needs: frozenset[Capability]
    after: tuple[str, ...] = ()
    unless: frozenset[Capability] = frozenset()


def case(
    *needs: Capability,
    since: str = "1.0",
    after: str | tuple[str, ...] = (),
    unless: Capability | None = None,
) -> Callable[[_F], _F]:
    """Mark a test method of a suite as a case.

    Args:
        *needs: The capabilities that the case requires.
        since: The suite version that introduced the case.
        after: Earlier cases of the suite that this case presupposes. If one of them failed, this
            case is reported as not judged, so that the failure points to the cause.
        unless: The capability that excludes the case.
    """

    def mark(function: _F) -> _F:
        names = (after,) if isinstance(after, str) else after
        without = frozenset[Capability]() if unless is None else frozenset({unless})
        setattr(function, _CASE, Case(since, frozenset(needs), names, without))
        return function

    return mark


def case_of(function: object) -> Case | None:
    """Return the case of a function, or None if it is not a case."""
    found: Case | None = getattr(function, _CASE, None)
    return found


class ConnectorSuite:
    """The base of all suites. A connector derives from a suite and declares its capabilities.

    Attributes:
        capabilities: The capabilities of the connector, with the reason for each missing one.
        written_for: The suite version that the connector was written for. Later cases run and are
            reported as new. Their failures do not fail the run.
        on_spark: Whether its pipelines run on the Spark of the fixture ``spark_environment``, or in
            this process.
        judged_by: Capabilities that do not select cases, but determine how strict they are.
    """

    capabilities: ClassVar[Capabilities] = Capabilities()
    written_for: ClassVar[str] = SUITE_VERSION
    on_spark: ClassVar[bool] = False
    judged_by: ClassVar[frozenset[Capability]] = frozenset()

    def __init_subclass__(cls, *, part: bool = False) -> None:
        """Check that every case comes after cases of its suite.

        Args:
            part: Whether the class has the cases of one theme, which may come after those of other
                parts.
        """
        super().__init_subclass__()
        if part:
            return
        known = dict(cls.cases())
        for name, found in known.items():
            if unknown := [each for each in found.after if each not in known]:
                raise TypeError(
                    f"{cls.__name__}.{name} comes after {unknown[0]}, which is not a case"
                )

    @classmethod
    def cases(cls) -> Iterator[tuple[str, Case]]:
        """Return the names and cases of this suite."""
        for name in dir(cls):
            found = case_of(getattr(cls, name))
            if found is not None:
                yield name, found

    @classmethod
    def possible(cls) -> Capabilities:
        """Return the capabilities of the connector in the environment of the suite."""
        return cls.capabilities

    @classmethod
    def undeclared(cls) -> list[Capability]:
        """Return the capabilities that cases need and the connector does not declare."""
        known = (found for _, found in cls.cases() if not cls.is_new(found))
        asked = frozenset(need for found in known for need in found.needs)
        return cls.possible().undeclared(asked | cls.judged_by)

    @classmethod
    def reason_against(cls, found: Case, parameters: Mapping[str, object]) -> str | None:
        """Return why a case with these parameters does not apply, or None if it does."""
        possible = cls.possible()
        for carried in _carried(parameters):
            if carried in possible.cannot_carry:
                return f"{carried}: {possible.cannot_carry[carried]}"
        if excluded := sorted(found.unless & possible.can):
            return f"{excluded[0]}: what it asks for cannot happen"
        if unknown := possible.undeclared(found.needs):
            return f"{', '.join(unknown)}: a new capability without a declaration"
        return possible.reason_against(found.needs)

    @classmethod
    def is_new(cls, found: Case) -> bool:
        """Whether a case is newer than the version that the connector was written for."""
        return Version(found.since) > Version(cls.written_for)


def _carried(parameters: Mapping[str, object]) -> Iterator[str]:
    """Return what a case with these parameters carries: a type, some of its values, or a name."""
    data_type, values = parameters.get("data_type"), parameters.get("values")
    if isinstance(column_name := parameters.get("column_name"), str):
        yield f"column name: {column_name}"
    if isinstance(data_type, str):
        yield data_type
        if isinstance(values, str):
            yield f"{data_type}: {values}"
