# SPDX-License-Identifier: Apache-2.0
import pytest

from connector_release_tools.errors import DocsError
from connector_release_tools.site.reference import Reference

MODULE = '''\
"""A package."""

import abc
import enum
from dataclasses import dataclass

import never_installed
from never_installed import theirs

from one.parts import Part, helper

__all__ = ["LIMIT", "Kind", "Part", "helper", "theirs"]

LIMIT: int = 3
"""Most of it."""


class Kind(enum.Enum):
    """A kind."""

    BIG = "big: yes"


@experimental
class Base(abc.ABC):
    """Not exported."""
'''
PARTS = '''\
import never_installed

raise RuntimeError("imported")


@experimental
class Part(never_installed.Thing):
    """A part.

    Attributes:
        size: How large
            it is.
    """

    class Side:
        """One of two.

        Note:
            The other may be missing.
        """

    @property
    def weight(self) -> float | None:
        """Its weight."""

    @classmethod
    def of(cls, *, size: int) -> "Part":
        """Make one.

        Args:
            size: How large.

        Returns:
            The part.

        Raises:
            ValueError: It is too large.
        """

    def untold(self): ...

    def _private(self):
        """Not public."""


def helper(a, /, b=1, *args, c: str = "x", **rest) -> None:
    """Help."""
'''


SETTINGS = '''
from connectors_core.options import Configured, Setting, option

__all__ = ["Pump"]


class Options(Configured):
    rows: Setting[int] = option("rows", int, default=5, doc="Most " "rows.")


class Pump(Options):
    """Reads."""

    servers: Setting[tuple[str, ...], str | list[str]] = option(
        "servers", str, kw_only=False, doc="Where they are."
    )
    declared: Setting[str | None] = option("schema", str, default=None, alias="schema", doc=DOC)
'''


@pytest.fixture
def reference(tmp_path):
    package = tmp_path / "one"
    package.mkdir()
    (package / "__init__.py").write_text(MODULE)
    (package / "parts.py").write_text(PARTS)
    (package / "again.py").write_text('from one.parts import Part\n\n__all__ = ["Part"]\n')
    (package / "silent.py").write_text('"""Nothing."""\n')
    (package / "wrong.py").write_text('__all__ = ["gone"]\n')
    return Reference(tmp_path)


def test_exported_names_are_documented_under_the_name_of_the_module(reference):
    page = reference.page("one")
    assert page.startswith("# one API\n\n:::{py:module} one\n")
    assert "::::{py:class} Part\n\n*Experimental.*\n\nA part." in page
    assert ":ivar size: How large\n  it is." in page
    assert "Derives from `never_installed.Thing`." in page
    assert ':::{py:property} weight\n:type: "float | None"\n' in page
    assert ":::{py:method} of(*, size: int) -> Part\n:classmethod:\n" in page
    assert ":param size: How large.\n\n:returns: The part.\n\n:raises ValueError: It is" in page
    assert ":::{py:function} helper(a, /, b=1, *args, c: str = 'x', **rest) -> None" in page
    assert ':::{py:data} LIMIT\n:type: "int"\n:value: "3"\n\nMost of it.' in page
    assert ":::{py:attribute} BIG\n:value: \"'big: yes'\"\n" in page


def test_the_keywords_of_a_class_are_its_declared_settings(reference):
    (reference.sources / "one" / "settings.py").write_text(SETTINGS)
    page = reference.page("one.settings")
    assert (
        "{py:class} Pump(servers: str | list[str], *, rows: int = 5, schema: str | None = None)\n"
        in page
    )
    assert ":param servers: Where they are.\n:param rows: Most rows.\n:param schema: \n" in page


def test_private_and_undocumented_names_are_omitted(reference):
    page = reference.page("one")
    for name in ("Base", "_private", "untold"):
        assert name not in page


USED = '''
import enum

__all__ = ["AnError", "Color", "Limits", "Source"]


class _Shared(enum.IntFlag):
    """Not for users."""

    def shared(self):
        """Inherited."""


class AnError(ValueError):
    """Wrong."""


class Color(enum.Enum):
    """A color."""


class Limits:
    """Limits."""


class Source(_Shared):
    """A source."""
'''


def test_names_are_sorted_by_their_importance_for_users(reference):
    (reference.sources / "one" / "used.py").write_text(USED)
    page = Reference(reference.sources, first=["Source"]).page("one.used")
    places = [page.index(f"{{py:class}} {name}") for name in ("Source", "Limits", "Color", "AnErr")]
    assert places == sorted(places)


def test_a_private_base_is_not_shown_but_its_members_are(reference):
    (reference.sources / "one" / "used.py").write_text(USED)
    page = Reference(reference.sources, packages=["one.used"]).page("one.used")
    assert "_Shared" not in page
    assert "{py:method} shared()" in page
    assert "Derives from `enum.IntFlag`." in page


def test_each_name_is_documented_once(reference):
    assert "A part." in reference.page("one")
    assert "A part." not in (page := reference.page("one.again"))
    assert "described elsewhere: `Part`" in page


def test_only_one_version_is_linked(reference):
    assert ":no-index:" not in reference.page("one")
    page = Reference(reference.sources, is_linked=False).page("one")
    assert page.count(":no-index:") == page.count(":::{py:")


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("two", "the module two does not exist in"),
        ("one.gone", "the module one.gone does not exist in"),
        ("one.Kind", "is not a module"),
        ("one.silent", "one.silent has no __all__"),
        ("one.wrong", "one.wrong.__all__ lists gone, which does not exist"),
    ],
)
def test_a_name_that_cannot_be_documented_is_an_error(reference, name, what):
    with pytest.raises(DocsError, match=what):
        reference.page(name)
