# SPDX-License-Identifier: Apache-2.0
"""Classes whose settings are declared once as keywords, options, attributes, and help."""

from __future__ import annotations

import copy
import inspect
import re
import textwrap
from collections.abc import Callable, Hashable, Mapping
from typing import Any, ClassVar, Final, Self, TypeVar, cast, dataclass_transform

from connectors_core.errors import ConnectorError, InvalidOptionError
from connectors_core.options.declaration import Option, option
from connectors_core.options.keywords import unexpected_keyword
from connectors_core.options.option_set import OptionSet
from connectors_core.options.parsed_options import Options
from connectors_core.options.setting import Setting
from connectors_core.options.spelling import by_key, is_by_key, named_by

T = TypeVar("T")

__all__ = ["Configured", "Part", "part"]

_NOT_GIVEN: Final[Any] = object()
_QUOTED: Final = re.compile(r"`([a-z][\w.\-]*)`")


class Part(Setting[T, Any]):
    """A keyword whose value is built from several options, or from none; see `part`."""

    def __init__(
        self,
        kind: type[T] | None,
        options: tuple[Option[Any], ...],
        *,
        build: Callable[[Options], T | None] | None,
        accept: Callable[[Any], T] | None,
        default: Any,
        doc: str,
        declared_in: type[Configured] | None = None,
    ) -> None:
        self._kind = kind
        self._declared_in = declared_in
        self._options = options
        self._build = build
        self._accept = accept
        self._default = default
        self.doc = doc

    @property
    def options(self) -> tuple[Option[Any], ...]:
        """The options from which its value is built."""
        return self._options

    @property
    def kind(self) -> type[T] | None:
        """The class of its value, if there is one class."""
        return self._kind

    @property
    def declared_in(self) -> type[Configured] | None:
        """The class that declares its options; None if the part does."""
        return self._declared_in

    def introduced(self, since: str, *, again: bool) -> Self:
        """Return a copy whose options have a version."""
        made = copy.copy(self)
        made._options = tuple(each.introduced(since, again=again) for each in self._options)
        return made

    @property
    def keywords(self) -> dict[str, str]:
        """Their names in Python: keywords of the part, if it has any."""
        inner: Mapping[str, str] = {}
        if isinstance(self._kind, type) and issubclass(self._kind, Configured):
            inner = self._kind.keywords_by_key()
        names = {each.key: inner.get(each.key, each.keyword) for each in self._options}
        return {
            key: f"{self.keyword}.{name}" if name else self.keyword for key, name in names.items()
        }

    @property
    def required(self) -> bool:
        """Whether it is required."""
        return self._default is _NOT_GIVEN

    @property
    def fallback(self) -> Any:
        """Return the default."""
        return self._default() if callable(self._default) else self._default

    def accept(self, value: object) -> T:
        """Check the type of the keyword's value and return its canonical form."""
        if self._accept is not None:
            return self._accept(value)
        if self._kind is not None and not isinstance(value, self._kind):
            refused = InvalidOptionError(
                f"the value of {self.keyword!r} cannot be used",
                expected=self._kind.__name__,
                found=f"{value!r} ({type(value).__name__})",
                option=self.keyword,
                hint=self.doc,
            )
            raise refused
        return cast(T, value)

    def of(self, options: Options) -> T:
        """Return its value from parsed options. Errors name the keys of these options."""
        try:
            built = self._build(options) if self._build is not None else None
        except ConnectorError as error:
            error.rename_options({each.origin: each.key for each in self._options if each.origin})
            raise
        return self.fallback if built is None else built


def part(
    kind: type[Any] | None = None,
    *options: Option[Any],
    build: Callable[[Options], Any] | None = None,
    accept: Callable[[Any], Any] | None = None,
    default: Any = _NOT_GIVEN,
    doc: str,
    alias: str | None = None,
    kw_only: bool = True,
) -> Any:
    """Declare a keyword of a `Configured` class that is not a single option.

    Args:
        kind: The class of its values. A `Configured` class provides its options.
        *options: The options from which the value is built, unless `kind` provides them.
        build: Builds the value from parsed options; returns None for the default.
        accept: Converts the value of the keyword; by default it must be a `kind`.
        default: The default or its factory. Without a default, the keyword is required.
        doc: One or two sentences for users.
        alias: The keyword, if it differs from the attribute's name.
        kw_only: False for an argument that may be positional.
    """
    declared_in = None
    if isinstance(kind, type) and issubclass(kind, Configured) and build is None:
        options, build, declared_in = tuple(kind.OPTIONS), kind.from_parsed, kind
    made: Part[Any] = Part(
        kind,
        options,
        build=build,
        accept=accept,
        default=default,
        doc=doc,
        declared_in=declared_in,
    )
    made.name_keyword(alias, kw_only=kw_only)
    return made


class _Signature:
    """The signature of a class's constructor, created on access."""

    def __get__(self, instance: object, owner: type[Configured]) -> inspect.Signature:
        kinds = inspect.Parameter
        return inspect.Signature(
            [
                kinds(
                    each.keyword,
                    kinds.KEYWORD_ONLY if each.kw_only else kinds.POSITIONAL_OR_KEYWORD,
                    default=kinds.empty if each.required else each.fallback,
                )
                for each in sorted(owner.SETTINGS, key=lambda each: each.kw_only)
            ]
        )


@dataclass_transform(kw_only_default=True, field_specifiers=(option, part))
class Configured:
    """A class that declares each setting once in its body, by `option` and `part`.

    Each setting is a keyword of the constructor and a read-only attribute. A setting with a key is
    also an option of `from_options`. Type checkers know the keywords. `__post_init__` validates and
    assembles, as in a dataclass. Errors name a setting by its keyword or its key, as the caller
    does.

    The class keywords are `scope` and `elsewhere` (see `OptionSet`), `former`, the replacements of
    removed keywords, and `since`, the version that introduced the options of the body unless an
    option has its own. It is also the version of options that another package declares, in a base
    class or in the class of a part.

    Attributes:
        OPTIONS: The options by key.
        SETTINGS: The declarations, in order.
        FORMER: The replacements of removed keywords.
    """

    OPTIONS: ClassVar[OptionSet] = OptionSet()
    SETTINGS: ClassVar[tuple[Setting[Any, Any], ...]] = ()
    FORMER: ClassVar[Mapping[str, str]] = {}
    __signature__: ClassVar[Any] = _Signature()
    _made_of_options: bool

    def __init_subclass__(
        cls,
        *,
        scope: str | None = None,
        since: str | None = None,
        elsewhere: Mapping[str, str] | None = None,
        former: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init_subclass__(**more)
        if since is not None:
            cls._introduce(since)
        fields = {name: each for name, (each, _) in _settings(cls).items()}
        cls.SETTINGS = tuple(fields.values())
        bases = [each for each in reversed(cls.__mro__) if issubclass(each, Configured)]
        foreign = {key: hint for each in bases for key, hint in each.OPTIONS.elsewhere.items()}
        cls.OPTIONS = OptionSet(
            *(option for each in cls.SETTINGS for option in each.options),
            scope=scope or cls.OPTIONS.scope,
            keywords=cls.keywords_by_key(),
            elsewhere={**foreign, **(elsewhere or {})},
        )
        removed = {name: hint for each in bases for name, hint in each.FORMER.items()}
        cls.FORMER = {**removed, **(former or {})}
        cls.__doc__ = _documented(cls)

    def __init__(self, *positional: Any, **keywords: Any) -> None:
        cls = type(self)
        given = cls._bound(positional, keywords)
        with named_by(None if is_by_key() else cls.OPTIONS.keywords):
            for each in cls.SETTINGS:
                value = given.get(each.keyword)
                taken = each.keyword in given and each.takes(value)
                if not taken and each.required:
                    each.accept(value)
                self.__dict__[each.attribute] = each.accept(value) if taken else each.fallback
            self._made_of_options = is_by_key()
            self.__post_init__()

    def __post_init__(self) -> None:
        """Validate combinations of settings, and assemble the object."""

    @classmethod
    def from_options(cls, mapping: Mapping[str, Any]) -> Self:
        """Create an object from options by key, as in Spark and SQL.

        Args:
            mapping: Values by key, strings or Python values; see `OPTIONS`.

        Raises:
            OptionError: An option is unknown, missing, or invalid.
        """
        return cls.from_parsed(cls.OPTIONS.parse(mapping))

    @classmethod
    def from_parsed(cls, options: Options) -> Self:
        """Create an object from parsed options, which may contain others."""
        made = cls.__new__(cls)
        with by_key():
            for each in cls.SETTINGS:
                made.__dict__[each.attribute] = each.of(options)
            made._made_of_options = True
            made.__post_init__()
        return made

    def replaced(self, **changes: Any) -> Self:
        """Return a copy with some settings changed.

        Args:
            **changes: Values by keyword, as in the constructor.
        """
        return type(self)(**(self._values() | changes))

    @classmethod
    def keywords_by_key(cls) -> dict[str, str]:
        """Return the keyword of each option."""
        return {key: name for each in cls.SETTINGS for key, name in each.keywords.items()}

    def name_of_option(self, key: str) -> str | None:
        """Return the caller's name of an option: its keyword or its key; None if unknown."""
        return self.names_of_options().get(key)

    def names_of_options(self) -> Mapping[str, str]:
        """Return the caller's names of all options by key: the keywords or the keys."""
        keywords = self.OPTIONS.keywords
        return {key: key for key in keywords} if self._made_of_options else keywords

    @classmethod
    def keyword_of(cls, key: str) -> str | None:
        """Return the keyword of an option; None for an unknown key."""
        return cls.OPTIONS.keywords.get(key)

    @classmethod
    def _introduce(cls, since: str) -> None:
        for name, (each, base) in _settings(cls).items():
            declared_in = each.declared_in if isinstance(each, Part) else None
            again = _package(declared_in or base) != _package(cls)
            if again or base is cls:
                setattr(cls, name, each.introduced(since, again=again))

    @classmethod
    def _bound(cls, positional: tuple[Any, ...], keywords: dict[str, Any]) -> dict[str, Any]:
        known = cls.__signature__.parameters
        stranger = next((name for name in keywords if name not in known), None)
        if stranger is not None:
            meant = (cls.keyword_of(key) for key in cls.OPTIONS.suggest(stranger))
            suggestions = dict.fromkeys(cls._argument(each) for each in meant if each)
            raise unexpected_keyword(
                cls.__name__, stranger, suggestions, instead=cls.FORMER.get(stranger)
            )
        try:
            return dict(cls.__signature__.bind(*positional, **keywords).arguments)
        except TypeError as exc:
            raise TypeError(f"{cls.__name__}() {exc}") from None

    @classmethod
    def _argument(cls, keyword: str) -> str:
        """Return a keyword as a caller passes it, also one of a part: `part=Kind(keyword=...)`."""
        part, _, inner = keyword.partition(".")
        found = next((each for each in cls.SETTINGS if inner and each.keyword == part), None)
        kind = found.kind if isinstance(found, Part) else None
        return keyword if kind is None else f"{part}={kind.__name__}({inner}=...)"

    def _values(self) -> dict[str, Any]:
        return {each.keyword: self.__dict__[each.attribute] for each in self.SETTINGS}

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        values = self._values().values()
        return hash((type(self), *(each for each in values if isinstance(each, Hashable))))

    def __repr__(self) -> str:
        values = self._values()
        shown = (
            f"{each.keyword}={each.shown(values[each.keyword])}"
            for each in self.SETTINGS
            if values[each.keyword] != each.fallback
        )
        return f"{type(self).__name__}({', '.join(shown)})"


def _settings(cls: type) -> dict[str, tuple[Setting[Any, Any], type]]:
    """Return the settings of a class by attribute, with the class that declares each."""
    return {
        name: (each, base)
        for base in reversed(cls.__mro__)
        for name, each in vars(base).items()
        if isinstance(each, Setting)
    }


def _package(cls: type) -> str:
    return cls.__module__.partition(".")[0]


def _documented(cls: type[Configured]) -> str | None:
    """Return the docstring of a class with the section of its arguments."""
    if not cls.__doc__ or not cls.SETTINGS:
        return cls.__doc__
    keywords = cls.OPTIONS.keywords

    def in_python(match: re.Match[str]) -> str:
        return f"`{keywords.get(match[1], match[1])}`"

    arguments = "\n".join(
        textwrap.fill(
            f"{each.keyword}: {_QUOTED.sub(in_python, each.doc)}",
            width=96,
            initial_indent="    ",
            subsequent_indent="        ",
        )
        for each in cls.SETTINGS
    )
    text, raises, rest = inspect.cleandoc(cls.__doc__).partition("\nRaises:\n")
    return (
        f"{text.rstrip()}\n\nArgs:\n{arguments}\n{raises and chr(10) + 'Raises:' + chr(10)}{rest}"
    )
