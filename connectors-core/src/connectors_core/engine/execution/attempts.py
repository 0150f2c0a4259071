# SPDX-License-Identifier: Apache-2.0
"""Decides which task failures the next attempt would repeat. Driver and executor.

Spark retries a task whatever its failure. A retry helps if a broker is briefly unavailable. It does
not help if a record cannot be parsed.
"""

from __future__ import annotations

from typing import Final

from connectors_core.errors import (
    CommitError,
    ConfigurationError,
    ConnectorError,
    DataLossError,
    FatalError,
    ForeignError,
    LeaseError,
    MissingDependencyError,
    RetryableError,
    StateCorruptedError,
    StateLocationError,
    UnexpectedError,
)
from connectors_core.source.base.element_queue import FetchError

# These may not occur on another machine, or a moment later.
_MAY_PASS: Final = (
    CommitError,
    DataLossError,
    LeaseError,
    MissingDependencyError,
    RetryableError,
    StateCorruptedError,
    StateLocationError,
)
# Exceptions of a program, not of its environment. Subclasses may mean anything.
_OF_THE_PROGRAM: Final = frozenset(
    {
        "ArithmeticError",
        "AssertionError",
        "AttributeError",
        "IndexError",
        "KeyError",
        "LookupError",
        "NameError",
        "NotImplementedError",
        "OverflowError",
        "TypeError",
        "UnboundLocalError",
        "UnicodeDecodeError",
        "UnicodeEncodeError",
        "ValueError",
        "ZeroDivisionError",
        "decimal.InvalidOperation",
        "pyarrow.lib.ArrowInvalid",
        "pyarrow.lib.ArrowKeyError",
        "pyarrow.lib.ArrowNotImplementedError",
        "pyarrow.lib.ArrowTypeError",
        "pyspark.errors.exceptions.base.PySparkRuntimeError",
        "pyspark.errors.exceptions.base.PySparkTypeError",
        "pyspark.errors.exceptions.base.PySparkValueError",
    }
)
# These errors can have any cause. The same error twice in one task counts as deterministic.
_UNSPECIFIC: Final = frozenset({"Exception", "RuntimeError"})


def fails_again(error: BaseException) -> bool:
    """Return whether a source or sink would fail with this error in the next attempt too.

    Only connector errors say so. Any other exception in a connector may stem from a system's
    temporary response and is worth another attempt.

    Args:
        error: The error that the task raised.
    """
    if isinstance(error, FetchError | UnexpectedError) and error.__cause__ is not None:
        return fails_again(error.__cause__)  # the wrapper only says where it happened
    return (
        isinstance(error, ConnectorError)
        and not isinstance(error, _MAY_PASS)
        and not isinstance(error, ForeignError)
        and isinstance(error, ConfigurationError | FatalError | ValueError)
    )


def is_of_the_program(type_name: str) -> bool:
    """Return whether user code would raise this again for the same rows.

    Args:
        type_name: Name of the class, as in a traceback.
    """
    return type_name in _OF_THE_PROGRAM


def is_unspecific(type_name: str) -> bool:
    """Return whether the class says nothing about the cause.

    Args:
        type_name: Name of the class, as in a traceback.
    """
    return type_name in _UNSPECIFIC
