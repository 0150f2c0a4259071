# SPDX-License-Identifier: Apache-2.0
"""Tables of connectors whose source, sink, and lookup are `Configured` by options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from connectors_core.errors import ConfigurationError, InvalidOptionError, UnknownOptionError
from connectors_core.options import Configured, OptionSet
from connectors_core.options.suggestions import suggested
from connectors_core.table.factory import DynamicTableContext
from connectors_core.table.references import is_reference
from connectors_core.table.table_schema import MetadataColumn

__all__ = ["check_known", "given_options", "metadata_option", "refuse_metadata", "schema_option"]

SCHEMA: Final = "schema"
METADATA_COLUMNS: Final = "metadata.columns"


def given_options(
    made: type[Configured],
    context: DynamicTableContext,
    columns: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the options of one part of a connector.

    Args:
        made: The class of the part.
        context: The table. Options that only other parts know are left out.
        columns: Options that follow from the columns of the table.

    Raises:
        InvalidOptionError: An option repeats what the columns say.
    """
    given = {key: value for key, value in context.options.items() if key in made.OPTIONS}
    for key in columns:
        if key in given:
            raise InvalidOptionError(
                f"the columns of the table {context.name} determine an option",
                expected="no value",
                found=given[key],
                option=key,
                hint="remove the option",
            )
    return {**given, **{key: value for key, value in columns.items() if value is not None}}


def check_known(
    context: DynamicTableContext, parts: Iterable[type[Configured]], others: Iterable[str] = ()
) -> None:
    """Check that some part of a connector knows each option and accepts its value.

    Args:
        context: The table.
        parts: The classes of the parts.
        others: Keys that the factory itself uses.

    Raises:
        UnknownOptionError: No part knows an option.
        InvalidOptionError: No part accepts a value.
    """
    parts, known = tuple(parts), set(others)
    for key, value in context.options.items():
        knowing = [each.OPTIONS for each in parts if key in each.OPTIONS]
        if not knowing and key not in known:
            keys = {option.key for each in parts for option in each.OPTIONS} | known
            raise UnknownOptionError(
                key,
                scope=f"table {context.name}",
                suggestions=suggested(key, {each: each for each in sorted(keys)}),
            )
        if not is_reference(value):
            _check_value(knowing, key, value)


def _check_value(parts: Sequence[OptionSet], key: str, value: str) -> None:
    """Check a value for the parts of a connector, of which one must accept it."""
    errors = []
    for each in parts:
        try:
            each.check(key, value)
        except InvalidOptionError as error:
            errors.append(error)
    if errors and len(errors) == len(parts):
        raise errors[0]


def schema_option(context: DynamicTableContext) -> Any:
    """Return the physical columns of a table, or None if the connector infers them."""
    return context.table.schema.physical if context.table.schema.columns else None


def metadata_option(context: DynamicTableContext) -> dict[str, str] | None:
    """Return the metadata columns of a table: from the connector's name to the column's."""
    return {each.key: each.name for each in context.table.schema.metadata} or None


def refuse_metadata(context: DynamicTableContext, columns: Iterable[MetadataColumn]) -> None:
    """Refuse metadata columns that a connector cannot read or write.

    Raises:
        ConfigurationError: There is one.
    """
    for each in columns:
        raise ConfigurationError(
            f"the table {context.name} cannot have the metadata column {each.name!r}",
            found=f"METADATA FROM {each.key!r}",
            hint="remove the column, or declare it VIRTUAL if it is only read",
        )
