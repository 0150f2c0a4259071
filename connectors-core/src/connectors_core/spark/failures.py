# SPDX-License-Identifier: Apache-2.0
"""What Spark says of a failure, as one error of the tree that fits on a screen. Driver.

An exception in a task reaches the driver as text: the Python traceback, then the stack of the JVM,
often twice. What a person needs of it is the exception that Python code raised, or else the first
line of Spark's message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.errors import AnalysisException, ParseException

from connectors_core.engine.state import Lease
from connectors_core.errors import (
    ConfigurationError,
    ConnectorError,
    FatalError,
    ForeignError,
    LeaseError,
    RetryableError,
    error_from_text,
)
from connectors_core.spark.internals.sessions import exit_status_of_jvm, is_error_of_spark
from connectors_core.spelling import spell

_TRACEBACK: Final = "Traceback (most recent call last):"
_EXCEPTION: Final = re.compile(r"(?P<type>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?", re.DOTALL)
_CHAIN: Final = (
    "The above exception was the direct cause",
    "During handling of the above exception",
)
# What Spark and Py4J put before the line that tells what happened.
_PREFIXES: Final = (
    re.compile(r"An error occurred while calling \S+\s*:?\s*", re.DOTALL),
    re.compile(r"(?:\[STREAM_FAILED\] )?Query .{0,300}? terminated with (?:exception|error): "),
    re.compile(r"(?:org\.apache\.spark\.)?SparkException: (?=Job aborted|Task failed)"),
    re.compile(
        r"Job aborted due to stage failure: .{0,200}?"
        r"most recent failure: Lost task .{0,200}?executor [^)]*\): ",
        re.DOTALL,
    ),
)
_SPARK_LOG_TAKEN: Final = "[CONCURRENT_STREAM_LOG_UPDATE]"
_CAUSED_BY: Final = re.compile(r"^Caused by: ([\w.$]+: .+)$", re.MULTILINE)
_MOST_CHARACTERS: Final = 600
_MOST_MESSAGE_LINES: Final = 12
_MOST_FRAME_LINES: Final = 10


@dataclass(frozen=True, kw_only=True)
class PythonFailure:
    """An exception of Python code in a task, taken from the text that Spark makes of it.

    Attributes:
        type_name: Qualified name of its class, as a traceback shows it.
        message: Its text.
        frames: The lines of its traceback between the headline and the exception.
        cause: What it was raised from.
    """

    type_name: str
    message: str
    frames: tuple[str, ...] = ()
    cause: PythonFailure | None = None

    @classmethod
    def of(cls, text: str) -> PythonFailure | None:
        """The exception that a text of Spark's is about, or None where it shows no Python one.

        Args:
            text: The text of an exception of Spark's, or of a task that failed.
        """
        _, found, rest = text.partition(_TRACEBACK)
        if not found:
            return None
        python = re.split(r"\n\s*(?:at [\w$.]+\(|Driver stacktrace:)", rest, maxsplit=1)[0]
        failure: PythonFailure | None = None
        chained = False
        for part in python.split(_TRACEBACK):  # the last one is what was raised
            lines = part.strip("\n").splitlines()
            frames = []
            while lines and (not lines[0].strip() or lines[0].startswith(" ")):
                frames.append(lines.pop(0))
            shown = _EXCEPTION.fullmatch("\n".join(_until_chain(lines)).strip())
            if shown is not None:
                failure = cls(
                    type_name=shown["type"],
                    message=(shown["message"] or "").strip(),
                    frames=tuple(frames),
                    cause=failure if chained else None,
                )
            chained = _CHAIN[0] in part
        return failure

    @property
    def error(self) -> ConnectorError | None:
        """The error of the tree that it was, without its cause; None where it was another one."""
        return error_from_text(self.type_name, self.message)

    @property
    def first_line(self) -> str:
        """Class and first line of the message."""
        name = self.type_name.rpartition(".")[2]
        first = self.message.splitlines()[0].strip() if self.message else ""
        return _cut(f"{name}: {first}" if first else name)

    def as_cause(self) -> ConnectorError:
        """It as the cause of another error, in few lines."""
        known = self.error
        if known is not None:
            return known
        lines = [*self.frames[-_MOST_FRAME_LINES:], *self.message_lines()]
        return ForeignError(
            self.first_line, type_name=self.type_name, traceback_text="\n".join(lines)
        )

    def message_lines(self) -> list[str]:
        """The exception as a traceback ends with it, cut after some lines."""
        lines = [_cut(line) for line in f"{self.type_name}: {self.message}".splitlines()]
        more = len(lines) - _MOST_MESSAGE_LINES
        return lines if more <= 0 else [*lines[:_MOST_MESSAGE_LINES], f"... ({more} more lines)"]


class TaskFailedError(Exception):
    """A task failed in a way that its next attempt would repeat: the job was cancelled.

    Args:
        text: What Spark told of the task.
    """


def telling_line(error: BaseException) -> str:
    """The line of an exception's text that says what went wrong.

    Where the JVM names a last cause in words, that follows: a state store that cannot be written
    does not say that the disk is full.

    Args:
        error: An exception of Spark's, or any other.
    """
    text = str(error)
    python = PythonFailure.of(text)
    if python is not None:
        return python.first_line
    for _ in _PREFIXES:  # each may stand behind any other
        for prefix in _PREFIXES:
            text = prefix.sub("", text.lstrip(), count=1) if prefix.match(text.lstrip()) else text
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if not first:
        return type(error).__name__
    if not _is_spark(error):
        return _cut(f"{type(error).__name__}: {first}")
    last = "".join(_CAUSED_BY.findall(text)[-1:])
    told = last.partition(": ")[2] in first
    return _cut(first) + ("" if told else f"; caused by {_cut(last)}")


def translated(
    error: BaseException, what: str, *, hint: str | None = None, parts: Iterable[object] = ()
) -> ConnectorError:
    """An error of the tree for whatever a pipeline failed with.

    Its class says what to do, as that of its cause does. The cause is what Python code in a task
    raised, where Spark's text shows that; Spark's own exception, with the stack of the JVM, is the
    context (``__context__``), which Python does not print beside a cause.

    Args:
        error: What was raised; one of the tree comes back as it is.
        what: What failed, as the subject of a sentence.
        hint: What to do, where the cause does not say it.
        parts: The sources, sinks and tables; options are named as these were made.
    """
    if isinstance(error, ConnectorError):
        spell(error, parts)
        return error
    cause = short_cause(error)
    kind: type[ConnectorError] = FatalError
    if isinstance(cause, RetryableError):
        kind = RetryableError
    elif isinstance(cause, ConfigurationError) or isinstance(
        error, AnalysisException | ParseException
    ):
        kind = ConfigurationError
    known = cause if isinstance(cause, ConnectorError) else None
    found = telling_line(error)
    if (status := exit_status_of_jvm()) is not None:
        found = f"the JVM of Spark has ended with status {status}"
        hint = "find the reason in the log of the driver, then start a new driver"
    wrapped = kind(
        f"{what} failed",
        found=found,
        option=known.option if known is not None else None,
        hint=(known.hint if known is not None else None) or hint,
    )
    wrapped.__cause__ = cause
    wrapped.__context__ = error
    spell(wrapped, parts)
    return wrapped


def spark_log_taken(error: BaseException, what: str, lease: Lease) -> ConnectorError | None:
    """The error of a driver that found its entry in Spark's log written by another driver.

    Spark's logs have no fence: a former driver that freezes right before Spark commits a batch, and
    resumes, can commit it while its successor runs that batch again. Spark then ends the query of
    the later of the two, whichever it is.

    Args:
        error: What the query failed with.
        what: The query, as the subject of a sentence.
        lease: Of this driver.

    Returns:
        None where the query failed with something else.
    """
    if not _is_spark(error) or _SPARK_LOG_TAKEN not in str(error):
        return None
    try:
        lease.confirm()
    except LeaseError as taken_over:
        taken_over.__cause__ = short_cause(error)
        return taken_over
    except Exception:  # the state location does not answer: which of the two this is stays open
        return None
    found: ConnectorError = RetryableError(
        f"{what} ended because an earlier driver, which this one had replaced, resumed and wrote "
        "to Spark's log of the query again",
        found=telling_line(error),
        hint="restart: no rows are lost or duplicated, and the earlier driver stops by itself",
    )
    found.__cause__ = short_cause(error)
    return found


def short_cause(error: BaseException) -> BaseException:
    """An exception as a cause that fits on a screen: itself, unless it is one of Spark's."""
    if not _is_spark(error):
        return error
    python = PythonFailure.of(str(error))
    if python is not None:
        return python.as_cause()
    return ForeignError(telling_line(error), type_name=_qualified(error))


def _is_spark(error: BaseException) -> bool:
    return isinstance(error, TaskFailedError) or is_error_of_spark(error)


def _qualified(error: BaseException) -> str:
    return f"{type(error).__module__}.{type(error).__qualname__}"


def _until_chain(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        if line.startswith(_CHAIN):
            return
        yield line


def _cut(line: str) -> str:
    return line if len(line) <= _MOST_CHARACTERS else line[: _MOST_CHARACTERS - 4] + " ..."
