# SPDX-License-Identifier: Apache-2.0
"""A setting of a class: the type of its keyword and of its attribute."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from connectors_core.options.parsed_options import Options
from connectors_core.secrets import mask_text

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    from connectors_core.options.declaration import Option

    T = TypeVar("T", covariant=True)
    Given = TypeVarWithDefault("Given", default=T, contravariant=True)
else:
    T, Given = TypeVar("T"), TypeVar("Given")

__all__ = ["Setting"]


class Setting(Generic[T, Given]):
    """A keyword and attribute of a `Configured` class.

    `Setting[int]` accepts and returns an `int`. `Setting[timedelta, timedelta | str]` also accepts
    text and returns a `timedelta`.
    """

    attribute: str = ""
    keyword: str = ""
    kw_only: bool = True
    doc: str

    if not TYPE_CHECKING:

        def __class_getitem__(cls, _parameters: object) -> type:
            """Make the second type parameter optional."""
            return cls

    def name_keyword(self, keyword: str | None, *, kw_only: bool) -> None:
        """Set the keyword, if it differs from the attribute's name."""
        object.__setattr__(self, "keyword", keyword or "")
        object.__setattr__(self, "kw_only", kw_only)

    def __set_name__(self, owner: type, name: str) -> None:
        object.__setattr__(self, "attribute", name)
        object.__setattr__(self, "keyword", self.keyword or name)

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        if instance is None or not self.attribute:
            return self
        try:
            value: T = instance.__dict__[self.attribute]
        except KeyError:
            raise AttributeError(f"{self.attribute!r} is not set yet") from None
        return value

    def __set__(self, instance: object, value: Given) -> None:
        raise AttributeError(f"{self.attribute!r} cannot be changed: create a new object")

    @property
    @abstractmethod
    def options(self) -> tuple[Option[Any], ...]:
        """The options from which its value is built."""

    @property
    @abstractmethod
    def keywords(self) -> Mapping[str, str]:
        """The Python names of these options, by key."""

    @abstractmethod
    def introduced(self, since: str, *, again: bool) -> Self:
        """Return a copy whose options have a version, as a class offers them.

        Args:
            since: The version that introduced them.
            again: Replace the versions that options already have.
        """

    @property
    @abstractmethod
    def fallback(self) -> Any:
        """Return the default."""

    @property
    @abstractmethod
    def required(self) -> bool:
        """Whether it is required."""

    @abstractmethod
    def accept(self, value: object) -> T:
        """Validate the value of the keyword and return its canonical form."""

    @abstractmethod
    def of(self, options: Options) -> T:
        """Return its value from parsed options."""

    def shown(self, value: Any) -> str:
        """Return the value for `repr`."""
        return mask_text(repr(value))

    def takes(self, value: object) -> bool:
        """Return whether a keyword's value counts as given; None does not."""
        return value is not None
