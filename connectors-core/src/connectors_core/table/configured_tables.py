# SPDX-License-Identifier: Apache-2.0
"""Tables of connectors whose source, sink, and lookup are `Configured` by options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from connectors_core.errors import ConfigurationError, InvalidOptionError, UnknownOptionError
from connectors_core.options import Configured, Option, OptionSet
from connectors_core.options.suggestions import suggested
from connectors_core.table.factory import DynamicTableContext, DynamicTableFactory
from connectors_core.table.references import has_reference
from connectors_core.table.table_schema import MetadataColumn
from connectors_core.table.watermark_options import WatermarkOptions

__all__ = [
    "ConfiguredTableFactory",
    "given_options",
    "metadata_option",
    "refuse_metadata",
    "schema_option",
]


class ConfiguredTableFactory(DynamicTableFactory):
    """A factory of tables whose parts are `Configured`.

    Attributes:
        parts: The classes of the source, the sink, and the lookup.
        from_columns: The options that the columns of a table determine.
    """

    parts: ClassVar[tuple[type[Configured], ...]]
    from_columns: ClassVar[frozenset[str]] = frozenset({"schema", "metadata.columns"})

    def is_secret(self, key: str) -> bool:
        """Return whether an option of a part has a secret."""
        return any(each.OPTIONS.is_secret(key) for each in self.parts)

    def options(self) -> tuple[Option[Any], ...]:
        """Return the options of all parts, without those that the columns determine."""
        found: dict[str, Option[Any]] = {}
        for part in self.parts:
            for each in part.OPTIONS:
                found.setdefault(each.key, each)
        return tuple(each for key, each in found.items() if key not in self.from_columns)

    def validate(self, context: DynamicTableContext) -> None:
        """Check that some part knows each option and accepts its value.

        Raises:
            UnknownOptionError: No part knows an option.
            InvalidOptionError: No part accepts a value.
        """
        for key, value in context.options.items():
            knowing = [each.OPTIONS for each in self.parts if key in each.OPTIONS]
            if not knowing:
                parts = (*(each.OPTIONS for each in self.parts), WatermarkOptions.OPTIONS)
                keys = sorted({option.key for each in parts for option in each})
                raise UnknownOptionError(
                    key,
                    scope=f"table {context.name}",
                    suggestions=suggested(key, {each: each for each in keys}),
                )
            if not has_reference(value):
                _check_value(knowing, key, value)


def _check_value(parts: Sequence[OptionSet], key: str, value: str) -> None:
    """Check a value for the parts of a connector, of which one must accept it."""
    errors = []
    for each in parts:
        try:
            each.check(key, value)
        except InvalidOptionError as error:
            errors.append(error)
    if len(errors) == len(parts):
        raise errors[0]


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
