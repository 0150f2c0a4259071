# SPDX-License-Identifier: Apache-2.0
"""Which failures of a task its next attempt would repeat. Driver and executor.

Spark gives a task several attempts whatever it failed with. A broker that is away for a moment is
worth them; a record that cannot be parsed is not.
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

# They may be otherwise on another machine, or in a moment.
_MAY_PASS: Final = (
    CommitError,
    DataLossError,
    LeaseError,
    MissingDependencyError,
    RetryableError,
    StateCorruptedError,
    StateLocationError,
)
# Exceptions of a program and not of its surroundings; classes derived from them may be anything.
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
# They may stand for anything: twice the same from one task is taken for an answer.
_UNSPECIFIC: Final = frozenset({"Exception", "RuntimeError"})


def fails_again(error: BaseException) -> bool:
    """Whether a source or sink that failed with this fails in the next attempt too.

    Only errors of the tree tell. Any other exception in a connector may come from what a system
    answered just then, and is worth another attempt.

    Args:
        error: What the task raised.
    """
    if isinstance(error, FetchError | UnexpectedError) and error.__cause__ is not None:
        return fails_again(error.__cause__)  # it only says where it happened
    return (
        isinstance(error, ConnectorError)
        and not isinstance(error, _MAY_PASS)
        and not isinstance(error, ForeignError)
        and isinstance(error, ConfigurationError | FatalError | ValueError)
    )


def is_of_the_program(type_name: str) -> bool:
    """Whether user code that raised this raises it again for the same rows.

    Args:
        type_name: Name of the class, as a traceback shows it.
    """
    return type_name in _OF_THE_PROGRAM


def is_unspecific(type_name: str) -> bool:
    """Whether the class says nothing about what happened.

    Args:
        type_name: Name of the class, as a traceback shows it.
    """
    return type_name in _UNSPECIFIC
