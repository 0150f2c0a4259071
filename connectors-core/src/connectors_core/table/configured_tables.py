# SPDX-License-Identifier: Apache-2.0
"""Tables of connectors whose source, sink, and lookup are `Configured` by options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

from connectors_core.errors import ConfigurationError, InvalidOptionError, UnknownOptionError
from connectors_core.options import Configured, Option, OptionSet
from connectors_core.options.suggestions import suggested
from connectors_core.records import RecordPolicy
from connectors_core.table.abilities import TableAbility
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


_IGNORE: Final = Option(
    "ignore-parse-errors", bool, doc="Whether to skip records that cannot be read."
)


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

    def format_of(self, context: DynamicTableContext) -> str:
        """Return the prefix of the options of the format that reads a table, such as `value.json`.

        With a prefix, a table can have Flink's option `ignore-parse-errors` of this format.
        """
        return ""

    def record_policy(self, context: DynamicTableContext) -> RecordPolicy | None:
        """Return how to handle records of a table that cannot be read, for its scan source."""
        skips = context.options.get(f"{self.format_of(context)}.{_IGNORE.key}", "false")
        return RecordPolicy.skip() if _IGNORE.parse(skips) else None

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
        ignores = f"{self.format_of(context)}.{_IGNORE.key}"
        for key, value in context.options.items():
            knowing = [each.OPTIONS for each in self.parts if key in each.OPTIONS]
            if key == ignores:
                knowing.append(OptionSet(replace(_IGNORE, key=key)))
            if not knowing:
                raise self._unknown(key, context)
            if not has_reference(value):
                _check_value(knowing, key, value)

    def _unknown(self, key: str, context: DynamicTableContext) -> UnknownOptionError:
        parts = [*(each.OPTIONS for each in self.parts), WatermarkOptions.OPTIONS]
        names = {
            name: known
            for each in reversed(parts)
            for name, known in each.names().items()
            if known not in self.from_columns
        }
        hints = (each.instead_of(key) for each in parts)
        return UnknownOptionError(
            key,
            scope=f"table {context.name}",
            suggestions=suggested(key, names),
            hint=next((each for each in hints if each is not None), None),
        )


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


def metadata_option(
    context: DynamicTableContext, names: Mapping[str, str] | None = None
) -> dict[str, str] | None:
    """Return the metadata columns of a table: from the connector's name to the column's.

    Args:
        context: The table.
        names: The connector's names of metadata that has another name in Flink.
    """
    of = names or {}
    return {of.get(each.key, each.key): each.name for each in context.table.schema.metadata} or None


def refuse_metadata(context: DynamicTableContext, columns: Iterable[MetadataColumn]) -> None:
    """Refuse metadata columns that a connector cannot read or write.

    Raises:
        ConfigurationError: There is one.
    """
    for each in columns:
        raise ConfigurationError(
            f"the table {context.name} of the connector {context.connector!r} cannot have the "
            f"metadata column {each.name!r}",
            expected=f"a connector with the ability {TableAbility.WRITING_METADATA} for this key",
            found=f"METADATA FROM {each.key!r}",
            hint="remove the column, or declare it VIRTUAL if it is only read",
        )
