# SPDX-License-Identifier: Apache-2.0
"""A setting of a class: what its keyword accepts, and what its attribute gives."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from connectors_core.options.parsed import Options
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
    """A keyword and attribute of a class of `Configured`.

    `Setting[int]` accepts and gives an `int`; `Setting[timedelta, timedelta | str]` gives a
    `timedelta` and accepts a text too.
    """

    attribute: str = ""
    keyword: str = ""
    kw_only: bool = True
    doc: str

    if not TYPE_CHECKING:

        def __class_getitem__(cls, _parameters: object) -> type:
            """Let the second parameter be left out."""
            return cls

    def name_keyword(self, keyword: str | None, *, kw_only: bool) -> None:
        """Set what a keyword is called, where it is not the attribute."""
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
        raise AttributeError(f"{self.attribute!r} cannot be changed: make another one")

    @property
    @abstractmethod
    def options(self) -> tuple[Option[Any], ...]:
        """The options by key that give its value."""

    @property
    @abstractmethod
    def keywords(self) -> Mapping[str, str]:
        """What each of these options is called in Python, by its key."""

    @property
    @abstractmethod
    def fallback(self) -> Any:
        """The value when it is not given."""

    @property
    @abstractmethod
    def required(self) -> bool:
        """Whether it must be given."""

    @abstractmethod
    def accept(self, value: object) -> T:
        """Turn the value of the keyword into the canonical one and check it."""

    @abstractmethod
    def of(self, options: Options) -> T:
        """Its value among parsed options."""

    def shown(self, value: Any) -> str:
        """Return the value as `repr` shows it."""
        return mask_text(repr(value))

    def takes(self, value: object) -> bool:
        """Whether a keyword's value is one: None says that it is not given."""
        return value is not None
