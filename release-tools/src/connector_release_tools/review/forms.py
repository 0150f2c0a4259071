# SPDX-License-Identifier: Apache-2.0
"""Fills the choices of issue forms from the matrix; the rest is written by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ruamel.yaml.scalarstring import DoubleQuotedScalarString as Quoted

from connector_release_tools.errors import ReviewError
from connector_release_tools.matrix.model import Matrix
from connector_release_tools.yaml_text import dump, load

__all__ = ["with_choices"]

# Components with issues that are not connectors.
_BEFORE: Final = ("connectors-core",)
_AFTER: Final = ("connector-template", "release-tools", "something else")


def with_choices(name: str, text: str, matrix: Matrix) -> str:
    """Return a form with the components and, if it asks for them, the Spark lines of the matrix.

    Args:
        name: The name of the form in errors.
        text: The form; the fields with the ids `component` and `spark` get new choices.
        matrix: The source of the choices.

    Raises:
        ReviewError: The text is not a form, or does not ask for the component.
    """
    choices: dict[str, list[str]] = {
        "component": [*_BEFORE, *sorted(matrix.connectors), *_AFTER],
        "spark": [Quoted(str(each)) for each in matrix.spark_lines],
    }
    form = load(text, name=name, error=ReviewError)
    filled = set()
    for field in _dropdowns(form):
        if (wanted := choices.get(field["id"])) is not None:
            filled.add(field["id"])
            options = field["attributes"]["options"]
            if list(options) != wanted:
                options[:] = wanted
    if "component" not in filled:
        raise ReviewError(f"{name} has no dropdown with the id component")
    return dump(form)


def _dropdowns(form: Any) -> Iterator[Any]:
    for field in form["body"]:
        if field["type"] == "dropdown":
            yield field
