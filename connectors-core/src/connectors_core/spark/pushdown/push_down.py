# SPDX-License-Identifier: Apache-2.0
"""Pushes the needs of a query down to its sources. Driver."""

from __future__ import annotations

import functools
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from connectors_core.engine.execution.pushed_reader import PushedReader, SourceNeeds, pushed_reader
from connectors_core.engine.execution.reader_task import HEARTBEAT_COLUMN
from connectors_core.errors import InvalidOptionError
from connectors_core.spark.carriers.base import source_below
from connectors_core.spark.internals.plan_rewrites import (
    optimized_plan,
    shown_time_zone,
    with_narrower_parts,
)
from connectors_core.spark.internals.plans import PlanNode
from connectors_core.spark.lookups import RegisteredLookup
from connectors_core.spark.pushdown.occurrences import (
    PushableSource,
    lookup_occurrences,
    source_occurrences,
)
from connectors_core.spark.pushdown.plan_tree import PlanTree
from connectors_core.spark.pushdown.selection import Selection, selection_of
from connectors_core.spark.pushdown.source_needs import SourceOccurrence, needs_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PUSHDOWN_CONF: Final = "spark.connectors.pushdown"

_READ_ELSEWHERE: Final = "Spark keeps rows of it for several queries, or reads none"
_LOGGER: Final = logging.getLogger(__name__)


@dataclass(frozen=True)
class Pushdown:
    """A query whose sources read only what it needs.

    Attributes:
        df: Its rows.
        sources: The reader of each source.
        selection: The query, if the readers alone return its rows.
        reason: Why nothing was pushed down; empty if it was.
    """

    df: DataFrame
    sources: Mapping[str, PushedReader] = field(default_factory=dict)
    selection: Selection | None = None
    reason: str = ""


def push_down(
    df: DataFrame,
    sources: Mapping[str, PushableSource],
    lookups: Mapping[str, RegisteredLookup],
    *,
    replaced: Collection[str] = (),
) -> Pushdown:
    """Let the sources of a query read only what it needs.

    Args:
        df: The rows of the query.
        sources: The sources of the pipeline.
        lookups: The lookups of the pipeline.
        replaced: Uids of sources that read other entries than those in the plan of the query.

    Raises:
        InvalidOptionError: `spark.connectors.pushdown` is neither true nor false.
    """
    spark = df.sparkSession
    occurrences = source_occurrences(df, sources)
    if not occurrences:
        return Pushdown(df, reason="the query reads no source of the pipeline")
    as_it_is = _narrowed(df, sources, occurrences, {}, replaced) if replaced else Pushdown(df)
    if not _enabled(spark):
        return replace(as_it_is, sources={}, reason=f"{PUSHDOWN_CONF} is false")
    time_zone = functools.partial(shown_time_zone, spark)
    try:
        plan = PlanTree.of(optimized_plan(df, {each.text for each in occurrences}))
        needs = needs_of(
            plan,
            occurrences,
            lookups=lookup_occurrences(df, lookups),
            own_columns=[HEARTBEAT_COLUMN],
            time_zone=time_zone,
        )
        selection = selection_of(
            plan, occurrences, own_columns=[HEARTBEAT_COLUMN], time_zone=time_zone
        )
    except (LookupError, TypeError, ValueError) as error:
        # The query is as correct without it. A plan of an unknown form must not prevent it.
        _LOGGER.warning("nothing is pushed down to sources: the plan of the query: %r", error)
        reason = "the plan of the query has an unknown form"
        return replace(as_it_is, sources={}, reason=reason)
    if df.isStreaming:
        needs = {uid: replace(each, limit=None) for uid, each in needs.items()}
    pushed = _narrowed(df, sources, occurrences, needs, replaced)
    if selection is not None and _returns(pushed.sources[selection.uid], selection):
        return replace(pushed, selection=selection)
    return pushed


def _returns(pushed: PushedReader, selection: Selection) -> bool:
    """Return whether a reader returns exactly the rows of a selection."""
    reader = pushed.reader
    if pushed.reason or not selection.filters <= {*reader.filters}:
        return False
    return reader.strategy is None or HEARTBEAT_COLUMN in reader.output_schema().names


def _enabled(spark: SparkSession) -> bool:
    text = str(spark.conf.get(PUSHDOWN_CONF, "true")).lower()
    if text not in ("true", "false"):
        raise InvalidOptionError(
            f"{PUSHDOWN_CONF} is neither true nor false",
            expected="true or false",
            found=text,
            option=PUSHDOWN_CONF,
        )
    return text == "true"


def _narrowed(
    df: DataFrame,
    sources: Mapping[str, PushableSource],
    occurrences: list[SourceOccurrence],
    needs: Mapping[str, SourceNeeds],
    replaced: Collection[str],
) -> Pushdown:
    pushed = {}
    for uid in dict.fromkeys(each.uid for each in occurrences):
        reader = sources[uid].reader
        pushed[uid] = (
            pushed_reader(reader, needs[uid])
            if uid in needs
            else PushedReader(reader=reader, reason=_READ_ELSEWHERE)
        )
    # Sources are equal if their settings are, so a narrower one can be equal to the original.
    changed = {
        uid
        for uid, each in pushed.items()
        if each.read is not None or each.reader != sources[uid].reader or uid in replaced
    }

    def narrower(node: PlanNode) -> tuple[DataFrame, pa.Schema] | None:
        uid = source_below(node)
        if uid not in changed:
            return None
        return sources[uid].narrowed(pushed[uid].reader), sources[uid].reader.output_schema()

    return Pushdown(with_narrower_parts(df, narrower) if changed else df, pushed)
