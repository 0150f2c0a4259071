# SPDX-License-Identifier: Apache-2.0
"""The error classes of the core and of all connectors, grouped by what the caller must do.

========================  =========================================================
`ConfigurationError`      change an option, a package, or a location; retrying does
                          not help
`RetryableError`          retry: the same call may succeed later
`FatalError`              stop the pipeline; continuing would lose or duplicate data
`BadRecordError`          the record policy decides what to do with the record
========================  =========================================================

Every error has the expected and the found value, the option, and a hint. Pickling between executor
and driver keeps its attributes and its chain of causes.
"""

from __future__ import annotations

import inspect
import pickle
import re
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final, TypeVar

from connectors_core.masking import mask_text

__all__ = [
    "BadRecordError",
    "BadRecordLimitError",
    "CommitError",
    "ConfigurationError",
    "ConnectorError",
    "DataLossError",
    "FatalError",
    "ForeignError",
    "IdentityError",
    "InvalidOptionError",
    "LeaseError",
    "MissingDependencyError",
    "MissingOptionError",
    "OptionError",
    "RetryableError",
    "SparkMismatchError",
    "SplitChangedError",
    "StateCorruptedError",
    "StateLocationError",
    "StateVersionError",
    "UnexpectedError",
    "UnknownOptionError",
    "UnsupportedError",
]

_E = TypeVar("_E", bound="ConnectorError")

# A longer chain of causes is cut when it is pickled: it is a loop or useless.
_MAX_CAUSES = 32


class ConnectorError(Exception):
    """The base class of all errors raised by the core and by connectors; driver and executor.

    Passwords in URLs are removed from every text. Pass values of secret options only as
    `connectors_core.secrets.Secret`.

    Args:
        message: One sentence that states the problem.
        expected: The valid value or condition.
        found: The actual value or condition.
        option: Key of the option that determines it.
        hint: An instruction that fixes the problem.
        code: Stable identifier for programs; by default that of the class.
    """

    code: str = "CONNECTOR_ERROR"

    # The name by which the caller set the option, if it is a Python keyword; shown instead.
    keyword: str | None = None

    # The keywords of the other options of the same object, by key; texts show them too.
    keywords: Mapping[str, str] = MappingProxyType({})

    _default_hint: ClassVar[str | None] = None

    def __init__(
        self,
        message: str,
        *,
        expected: object = None,
        found: object = None,
        option: str | None = None,
        hint: str | None = None,
        code: str | None = None,
    ) -> None:
        self.message: str = mask_text(message)
        super().__init__(self.message)
        self.expected: str | None = _text(expected)
        self.found: str | None = _text(found)
        self.option: str | None = option
        self.hint: str | None = _text(hint if hint is not None else self._default_hint)
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        parts = [f"[{self.code}] {self.message}"]
        for label in ("expected", "found", "option", "hint"):
            value = getattr(self, label, None)
            if value is not None:
                parts.append(f"  {label}: {value}")
        shown = "\n".join(parts)
        own = {} if self.keyword is None else {str(self.option): self.keyword}
        return _respelled(shown, {**self.keywords, **own})

    def rename_options(self, keys: Mapping[str, str]) -> None:
        """Name options by other keys, also in the texts.

        Args:
            keys: The new keys by the current ones. Other options keep their keys.
        """
        self.option = keys.get(self.option or "", self.option)
        self.message = _respelled(self.message, keys)
        self.args = (self.message, *self.args[1:])
        self.expected = self.expected and _respelled(self.expected, keys)
        self.hint = self.hint and _respelled(self.hint, keys)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.message!r}, code={self.code!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # BaseException.__reduce__ calls the class with `args` only: keyword arguments and the
        # cause would be lost on the way from an executor to the driver.
        return _rebuild, (type(self), self.args, _portable(self.__dict__), _freeze_causes(self))


class ForeignError(ConnectorError):
    """Replaces a cause that could not be pickled.

    Attributes:
        type_name: Qualified name of the class of the original exception.
        traceback_text: Its traceback as text, with passwords in URLs removed.
    """

    code = "FOREIGN_ERROR"

    def __init__(
        self,
        message: str,
        *,
        type_name: str = "",
        traceback_text: str = "",
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.type_name: str = type_name
        self.traceback_text: str = mask_text(traceback_text)

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.traceback_text}".rstrip()


# --- Configuration: a person must change something -----------------------------------------------


class ConfigurationError(ConnectorError, ValueError):
    """A setting is wrong; raised as early as possible."""

    code = "CONFIGURATION"


class OptionError(ConfigurationError):
    """An option is unknown, missing, or has an invalid value."""

    code = "OPTION"


class UnknownOptionError(OptionError):
    """An unknown option.

    Args:
        option: The key as it was given.
        suggestions: Declared keys that may have been meant, best first.
        known: All declared keys.
        scope: The configured object, such as `Kafka source`.
        hint: An instruction that is more specific than the suggestions.
    """

    code = "OPTION_UNKNOWN"

    def __init__(
        self,
        option: str,
        *,
        suggestions: Sequence[str] = (),
        known: Iterable[str] = (),
        scope: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.suggestions: tuple[str, ...] = tuple(suggestions)
        self.known: tuple[str, ...] = tuple(known)
        where = f" for {scope}" if scope else ""
        if hint is not None:
            pass
        elif self.suggestions:
            hint = "did you mean " + " or ".join(repr(key) for key in self.suggestions) + "?"
        else:
            hint = "remove it or use one of the known options"
        super().__init__(
            f"unknown option {option!r}{where}",
            expected="one of " + ", ".join(self.known) if self.known else None,
            option=option,
            hint=hint,
        )


class MissingOptionError(OptionError):
    """A required option is missing.

    Args:
        option: The key.
        doc: The purpose of the option, shown in the hint.
        scope: What is being configured.
    """

    code = "OPTION_MISSING"

    def __init__(self, option: str, *, doc: str = "", scope: str | None = None) -> None:
        where = f" for {scope}" if scope else ""
        super().__init__(
            f"the required option {option!r}{where} is missing",
            option=option,
            hint=f"set {option!r}: {doc}" if doc else f"set {option!r}",
        )


class InvalidOptionError(OptionError):
    """The value of an option has the wrong type or is not allowed."""

    code = "OPTION_INVALID"


class StateLocationError(ConfigurationError):
    """The state location is unusable: unreachable, not writable, or without exclusive create."""

    code = "STATE_LOCATION"


class StateVersionError(ConfigurationError):
    """A newer release wrote the stored state."""

    code = "STATE_VERSION"
    _default_hint = "run the release that wrote the state, or a newer one"


class IdentityError(ConfigurationError):
    """The sources or sinks of a restarted pipeline do not match its stored state.

    Args:
        message: The mismatch.
        ways_out: The user's options, each a complete instruction.
        expected: The recorded sources and sinks.
        found: The current ones.
        option: Key of the option that determines it.
    """

    code = "IDENTITY"

    def __init__(
        self,
        message: str,
        *,
        expected: object = None,
        found: object = None,
        ways_out: Sequence[str] = (),
        option: str | None = None,
    ) -> None:
        self.ways_out: tuple[str, ...] = tuple(ways_out)
        hint = "; or ".join(self.ways_out) if self.ways_out else None
        super().__init__(message, expected=expected, found=found, option=option, hint=hint)


class LeaseError(ConfigurationError):
    """Another driver runs the pipeline, or has taken it over from this one.

    Attributes:
        holder: Known facts about the other driver (host, pid, since, incarnation).
    """

    code = "LEASE"

    def __init__(
        self,
        message: str,
        *,
        holder: Mapping[str, object] | None = None,
        expected: object = None,
        found: object = None,
        option: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.holder: dict[str, object] = dict(holder or {})
        super().__init__(message, expected=expected, found=found, option=option, hint=hint)


class UnsupportedError(ConfigurationError):
    """The connector, the Spark line, or the combination does not support the request."""

    code = "UNSUPPORTED"


class MissingDependencyError(ConfigurationError, ImportError):
    """A package that only some features need is not installed.

    Args:
        package: The import name of the missing package.
        install: The command that installs it, e.g. `pip install 'connector-kafka[avro]'`.
        feature: The feature that needs it.
    """

    code = "MISSING_DEPENDENCY"

    def __init__(self, package: str, *, install: str, feature: str | None = None) -> None:
        self.package: str = package
        self.install: str = install
        needed = f", which {feature} needs," if feature else ""
        super().__init__(
            f"the package {package!r}{needed} is not installed",
            hint=f"run: {install}",
        )


class SparkMismatchError(ConfigurationError):
    """A connector is built for a different Spark line than the installed one.

    Args:
        connector: The distribution of the connector.
        release: Its version, without the Spark line.
        built: The Spark line that it is built for, as in 3.5.
        pyspark: The installed version of pyspark.
        hint: An instruction; by default the command that installs the right build from an
            index.
    """

    code = "SPARK_MISMATCH"

    def __init__(
        self, connector: str, release: str, *, built: str, pyspark: str, hint: str | None = None
    ) -> None:
        line = ".".join(pyspark.split(".")[:2])
        super().__init__(
            f"{connector} {release} is built for a different Spark than the installed one",
            expected=f"pyspark {built} for {connector} {release}-{built}",
            found=f"pyspark {pyspark}",
            hint=hint or f"run: pip install '{connector}=={release}.{line}'",
        )


# --- Retryable: the same call may succeed later --------------------------------------------------


class RetryableError(ConnectorError):
    """The external system is temporarily unavailable; the same call may succeed later.

    Args:
        message: One sentence that states the problem.
        retry_after: Seconds that the external system asked to wait, or None.
        expected: The valid value or condition.
        found: The actual value or condition.
        option: Key of the option that determines it.
        hint: An instruction that fixes the problem.
        code: Stable identifier; by default that of the class.
    """

    code = "RETRYABLE"

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        expected: object = None,
        found: object = None,
        option: str | None = None,
        hint: str | None = None,
        code: str | None = None,
    ) -> None:
        self.retry_after: float | None = retry_after
        super().__init__(
            message, expected=expected, found=found, option=option, hint=hint, code=code
        )


# --- Fatal: stop, because continuing would lose or duplicate data --------------------------------


class FatalError(ConnectorError):
    """The pipeline must stop: continuing would lose, duplicate, or corrupt data."""

    code = "FATAL"


LOST_STATE_HINT: Final = (
    "do not edit or remove state files: restore checkpoint and state location from one backup "
    "(`connectors state restore`), rewind to an epoch whose state is complete (`connectors "
    "state rewind`), or give up a lost epoch (`connectors state give-up`)"
)
"The options of a user whose pipeline has lost state."


class StateCorruptedError(FatalError):
    """Stored state is missing, truncated, changed, or of the wrong kind."""

    code = "STATE_CORRUPTED"
    _default_hint = LOST_STATE_HINT


class DataLossError(FatalError):
    """Records that must be read, or whose writing was decided, no longer exist."""

    code = "DATA_LOSS"


class CommitError(FatalError):
    """A decided epoch cannot be committed to the external system."""

    code = "COMMIT"


class SplitChangedError(FatalError):
    """The data of a split was replaced or changed after it was planned."""

    code = "SPLIT_CHANGED"


class UnexpectedError(FatalError):
    """A connector raised an exception outside this tree, which is the cause."""

    code = "UNEXPECTED"
    _default_hint = "this is a bug in the connector: report it"


class BadRecordLimitError(FatalError):
    """More bad records than the record policy allows."""

    code = "BAD_RECORD_LIMIT"


# --- Records -------------------------------------------------------------------------------------


class BadRecordError(ConnectorError, ValueError):
    """One record cannot be read or written.

    Args:
        reason: Why the record cannot be used.
        split_id: The split that contains it, if known.
        position: Its position in the split, as text.
        raw: The original record, or None. Never shown, because it may contain personal data.
        option: Key of the option that determines how it is read.
        hint: An instruction that fixes the problem.
        code: Stable identifier of the kind of damage; by default that of the class.
    """

    code = "BAD_RECORD"
    _default_hint = "correct the record, or choose the record policy skip or dead-letter"

    def __init__(
        self,
        reason: str,
        *,
        split_id: str | None = None,
        position: str | None = None,
        raw: bytes | None = None,
        option: str | None = None,
        hint: str | None = None,
        code: str | None = None,
    ) -> None:
        self.reason: str = mask_text(reason)
        self.split_id: str | None = split_id
        self.position: str | None = position
        self.raw: bytes | None = raw
        where = "".join(
            (
                f" of split {split_id!r}" if split_id is not None else "",
                f" at {position}" if position is not None else "",
            )
        )
        found = None
        if raw is not None:
            found = f"{len(raw)} bytes, kept in the attribute raw"
        super().__init__(
            f"bad record{where}: {reason}", found=found, option=option, hint=hint, code=code
        )


# --- From text -----------------------------------------------------------------------------------

_FIELDS = ("expected", "found", "option", "hint")
_SHOWN = re.compile(
    r"\[(?P<code>\w+)\] (?P<message>.*?)"
    + "".join(rf"(?:\n  {field}: (?P<{field}>.*?))?" for field in _FIELDS),
    re.DOTALL,
)


def error_from_text(type_name: str, text: str) -> ConnectorError | None:
    """Rebuild an error from its text, without its cause; driver.

    Spark passes the exception of a task to the driver only as text.

    Args:
        type_name: Qualified name of its class, as in a traceback.
        text: The result of ``str``.

    Returns:
        The error, with default values for its further attributes. None if this process does not
        know the class as part of the tree, or if the text does not come from it.
    """
    kind = next((known for known in _tree(ConnectorError) if _name(known) == type_name), None)
    shown = _SHOWN.fullmatch(text)
    if kind is None or shown is None:
        return None
    state: dict[str, Any] = {
        name: None if parameter.default is parameter.empty else parameter.default
        for name, parameter in inspect.signature(kind).parameters.items()
    }
    state |= {name: shown[name] for name in ("message", "code", *_FIELDS)}
    error: ConnectorError = _rebuild(kind, (shown["message"],), state)
    return error


def restated(error: _E, message: str, *, found: str | None, hint: str | None) -> _E:
    """Return an error of the same class, code, and attributes with other texts; driver.

    Args:
        error: The error.
        message: The new message.
        found: The new found value.
        hint: The hint, if the error has none.
    """
    state = {
        **error.__dict__,
        "message": mask_text(message),
        "code": error.code,
        "found": _text(found),
        "hint": error.hint or _text(hint),
    }
    return _rebuild(type(error), (state["message"],), state)


def _tree(kind: type[ConnectorError]) -> Iterator[type[ConnectorError]]:
    yield kind
    for derived in kind.__subclasses__():
        yield from _tree(derived)


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


# --- Pickling ------------------------------------------------------------------------------------

# A cause in transit: its pickle (or None), class name, repr, traceback text.
_FrozenCause = tuple[bytes | None, str, str, str]


def _text(value: object) -> str | None:
    if value is None:
        return None
    return mask_text(value if isinstance(value, str) else repr(value))


def _survives_pickling(value: object) -> bytes | None:
    """Return the pickle of a value if it can also be loaded, else None."""
    try:
        data = pickle.dumps(value)
        pickle.loads(data)  # exceptions with custom constructors often dump but do not load
    except Exception:
        return None
    return data


def _portable(state: Mapping[str, Any]) -> dict[str, Any]:
    """Replace values that cannot be pickled with their repr, so that an error always arrives."""
    if _survives_pickling(dict(state)) is not None:
        return dict(state)
    return {
        key: value if _survives_pickling(value) is not None else mask_text(repr(value))
        for key, value in state.items()
    }


def _freeze_causes(error: BaseException) -> tuple[_FrozenCause, ...]:
    # Each link is pickled separately, because the pickle of a foreign exception drops its cause.
    frozen: list[_FrozenCause] = []
    seen = {id(error)}
    cause = error.__cause__
    while cause is not None and id(cause) not in seen and len(frozen) < _MAX_CAUSES:
        seen.add(id(cause))
        if isinstance(cause, ConnectorError):
            link: object = _Link(type(cause), cause.args, _portable(cause.__dict__))
        else:
            link = cause
        kind = type(cause)
        name = _name(kind)
        lines = traceback.format_exception(kind, cause, cause.__traceback__, chain=False)
        text = mask_text("".join(lines))
        frozen.append((_survives_pickling(link), name, mask_text(_safe_repr(cause)), text))
        cause = cause.__cause__
    return tuple(frozen)


def _safe_repr(error: BaseException) -> str:
    try:
        return repr(error)
    except Exception:
        return f"<{type(error).__qualname__} without a usable repr>"


class _Link:
    """A ConnectorError in a chain, without its own causes (they are separate links)."""

    def __init__(
        self, kind: type[ConnectorError], args: tuple[Any, ...], state: dict[str, Any]
    ) -> None:
        self.kind = kind
        self.args = args
        self.state = state


def _respelled(text: str, names: Mapping[str, str]) -> str:
    """Return the text with options under other names.

    Args:
        text: Any text.
        names: The new names by key.
    """

    def pattern(key: str) -> str:
        if not key.isidentifier():
            return re.escape(key)
        # Otherwise it may be a word of the sentence.
        return f"(?<=')(?:{key})(?=')|(?<=\n  option: ){key}"

    keys = "|".join(f"(?:{pattern(key)})" for key in names)
    if not keys:
        return text
    return re.sub(rf"(?<![\w.-])(?:{keys})(?![\w-]|\.\w)", lambda at: names[at[0]], text)


def _rebuild(
    kind: type[_E],
    args: tuple[Any, ...],
    state: Mapping[str, Any],
    causes: Sequence[_FrozenCause] = (),
) -> _E:
    # Constructors of subclasses take other arguments, so only the state is restored.
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    current: BaseException = error
    for frozen in causes:
        cause = _thaw(frozen)
        current.__cause__ = cause
        current = cause
    return error


def _thaw(frozen: _FrozenCause) -> BaseException:
    data, name, shown, text = frozen
    if data is not None:
        try:
            loaded = pickle.loads(data)
        except Exception:
            loaded = None  # for example, a client library that only the executors have
        if isinstance(loaded, _Link):
            return _rebuild(loaded.kind, loaded.args, loaded.state)
        if isinstance(loaded, BaseException):
            return loaded
    return ForeignError(shown, type_name=name, traceback_text=text)
