# SPDX-License-Identifier: Apache-2.0
"""Follows the hint of each kind of error literally, and ends with a running pipeline.

```python
HINTS = HintCases(connector_acme, reasons={"AcmeError": "a base"})

@HINTS.case("AcmeRequestError")
def unknown_stream(life):
    error = yield life.run                # fails
    assert "create the stream" in error.hint
    life.server.create("numbers")
    yield life.run                        # succeeds

@pytest.mark.parametrize("kind", HINTS.kinds)
def test_the_hint_of_an_error_leads_to_a_running_pipeline(kind, life):
    HINTS.follow(kind, life)

def test_every_kind_of_error_has_a_case_or_a_reason():
    assert HINTS.differences() == []
```
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from connectors_core.annotations import experimental
from connectors_core.errors import ConnectorError

__all__ = ["HintCase", "HintCases"]

HintCase = Callable[[Any], Generator[Callable[[], object], ConnectorError, None]]
"""Yields a call that fails, receives its error, follows the hint, and yields a call that succeeds.

Its argument is whatever the test gives to `HintCases.follow`."""

_CLASS: Final = re.compile(r"^class ([A-Z]\w*Error)\((?!Exception\b)", re.MULTILINE)
_CODE: Final = re.compile(r"\bcode=(?:\"(\w+)\"|(_?[A-Z_]+)\b)")


@experimental
class HintCases:
    """The cases of the errors of a package.

    The kind of an error is the name of its class, or its code if a place gives it one of its own.

    Args:
        package: The package. Its modules for tests do not count.
        reasons: Why a kind has no case.

    Attributes:
        kinds: The kinds that have a case.
    """

    def __init__(self, package: ModuleType, *, reasons: Mapping[str, str]) -> None:
        self._package = package
        self._reasons = dict(reasons)
        self._cases: dict[str, HintCase] = {}
        self.kinds = self._cases.keys()

    def case(self, *kinds: str) -> Callable[[HintCase], HintCase]:
        """Decorate the case of one or more kinds."""

        def add(case: HintCase) -> HintCase:
            self._cases.update(dict.fromkeys(kinds, case))
            return case

        return add

    def follow(self, kind: str, life: object) -> ConnectorError:
        """Run the case of a kind, and return its error.

        Args:
            kind: The kind.
            life: The argument of the case.

        Raises:
            AssertionError: The first call does not fail, or it fails with another kind of error.
        """
        steps = self._cases[kind](life)
        error = _error_of(next(steps))
        found = {type(error).__name__, error.code}
        assert kind in found, f"expected {kind}, found {found}: {error}"
        assert error.hint, f"no hint: {error}"
        steps.send(error)()
        next(steps, None)
        return error

    def differences(self) -> list[str]:
        """Return the kinds without a case or reason, and the cases and reasons of no kind."""
        kinds, known = self._kinds(), self._cases.keys() | self._reasons.keys()
        return [
            *(f"{kind} has neither a case nor a reason" for kind in sorted(kinds - known)),
            *(f"{kind} has a case and a reason" for kind in self.kinds & self._reasons.keys()),
            *(f"no {kind} exists" for kind in sorted(known - kinds)),
        ]

    def _kinds(self) -> set[str]:
        codes = set()
        for module, text in _sources(self._package):
            if _CLASS.search(text):
                importlib.import_module(module)
            codes |= set(_codes(text))
        classes = [
            each
            for each in _subclasses(ConnectorError)
            if _is_within(each.__module__, self._package.__name__)
        ]
        return {each.__name__ for each in classes} | (codes - {each.code for each in classes})


def _error_of(call: Callable[[], object]) -> ConnectorError:
    try:
        call()
    except ConnectorError as error:
        return error
    raise AssertionError("the first call of the case does not fail")


def _sources(package: ModuleType) -> Iterator[tuple[str, str]]:
    """Yield the modules of a package with their text."""
    root = Path(str(package.__file__)).parent
    for path in sorted(root.rglob("*.py")):
        parts = (package.__name__, *path.relative_to(root).with_suffix("").parts)
        module = ".".join(parts).removesuffix(".__init__")
        if _is_within(module, package.__name__):
            yield module, path.read_text()


def _codes(text: str) -> Iterator[str]:
    for code, constant in _CODE.findall(text):
        if constant:
            (code,) = re.findall(rf'^{constant}\b.* = "(\w+)"', text, re.MULTILINE)
        yield code


def _subclasses(kind: type[ConnectorError]) -> Iterator[type[ConnectorError]]:
    yield kind
    for derived in kind.__subclasses__():
        yield from _subclasses(derived)


def _is_within(module: str, package: str) -> bool:
    return module.startswith(f"{package}.") and not module.startswith(f"{package}.testing")
