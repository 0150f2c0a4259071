# SPDX-License-Identifier: Apache-2.0
"""Rows of nested columns for property tests, with Spark's nullability.

At every depth, each field of a struct, each element of a list, and each value of a map is nullable
or not. The arrays match Spark's: if a struct is null, all its fields are null, even those that are
not nullable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from connectors_core.annotations import experimental
from connectors_core.testing.extra import needs_extra

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["nested_array", "nested_batches"]

_MOST_DEPTH: Final = 3
_MOST_ROWS: Final = 4


@experimental
def nested_batches(
    leaves: Mapping[pa.DataType, SearchStrategy[Any]] | None = None,
    *,
    maps: bool = True,
    max_depth: int = _MOST_DEPTH,
) -> SearchStrategy[pa.RecordBatch]:
    """Generate batches of nested structs, lists, and maps. Needs hypothesis.

    Args:
        leaves: The types of the leaves, with strategies for values other than null. The defaults
            are integers, text, and bytes.
        maps: Whether to generate maps, which have text keys.
        max_depth: The maximum depth of nested types.
    """
    with needs_extra():
        from hypothesis import strategies as st

    values = leaves or {
        pa.int64(): st.integers(-(2**63), 2**63 - 1),
        pa.string(): st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
        pa.binary(): st.binary(max_size=3),
    }
    texts = st.text('abc"\\{}[]:, é', max_size=3)

    def field_of(draw: Callable[[Any], Any], name: str, depth: int) -> pa.Field:
        kind = draw(st.sampled_from(list(values)))
        shapes = ["leaf", "list", "struct"] + (["map"] if maps else [])
        shape = draw(st.sampled_from(shapes)) if depth < max_depth else "leaf"
        if shape == "list":
            kind = pa.list_(field_of(draw, "element", depth + 1))
        elif shape == "map":
            kind = pa.map_(pa.string(), field_of(draw, "value", depth + 1))
        elif shape == "struct":
            count = draw(st.integers(1, 2))
            kind = pa.struct([field_of(draw, f"f{at}", depth + 1) for at in range(count)])
        return pa.field(name, kind, draw(st.booleans()))

    def value_of(field: pa.Field) -> SearchStrategy[Any]:
        kind, types = field.type, pa.types
        found: SearchStrategy[Any]
        if types.is_struct(kind):
            found = st.fixed_dictionaries({each.name: value_of(each) for each in kind})
        elif types.is_map(kind):
            found = st.dictionaries(texts, value_of(kind.item_field), max_size=2).map(
                lambda entries: list(entries.items())
            )
        elif types.is_list(kind):
            found = st.lists(value_of(kind.value_field), max_size=2)
        else:
            found = values[kind]
        return st.none() | found if field.nullable else found

    @st.composite
    def batches(draw: Callable[[Any], Any]) -> pa.RecordBatch:
        count = draw(st.integers(1, 2))
        schema = pa.schema([field_of(draw, f"c{at}", 0) for at in range(count)])
        rows = draw(st.lists(st.tuples(*map(value_of, schema)), max_size=_MOST_ROWS))
        columns = [
            nested_array([row[at] for row in rows], field.type) for at, field in enumerate(schema)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    return batches()


@experimental
def nested_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Create a column as Spark does: below a null struct, every field is null.

    Args:
        values: Python values. A map is a list of pairs.
        kind: The type of the values.
    """
    types = pa.types
    validity = None
    if None in values:
        validity = pa.array([value is not None for value in values]).buffers()[1]
    if types.is_struct(kind):
        children = [
            nested_array(
                [None if value is None else value[each.name] for value in values], each.type
            )
            for each in kind
        ]
        return pa.Array.from_buffers(kind, len(values), [validity], children=children)
    if not (types.is_list(kind) or types.is_map(kind)):
        return pa.array(values, kind)
    offsets = [0]
    for value in values:
        offsets.append(offsets[-1] + len(value or ()))
    elements = [element for value in values for element in value or ()]
    if types.is_map(kind):
        entries = pa.struct([kind.key_field, kind.item_field])
        pairs = [{kind.key_field.name: key, kind.item_field.name: item} for key, item in elements]
        child = nested_array(pairs, entries)
    else:
        child = nested_array(elements, kind.value_type)
    buffers = [validity, pa.array(offsets, pa.int32()).buffers()[1]]
    return pa.Array.from_buffers(kind, len(values), buffers, children=[child])
