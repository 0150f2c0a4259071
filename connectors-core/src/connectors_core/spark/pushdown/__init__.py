# SPDX-License-Identifier: Apache-2.0
"""Pushes what a query needs down to its sources: columns, nested fields, conditions, limits.

Spark knows this after it has optimized the query, but has no place for it in a Python source. The
pipeline reads it off the optimized plan and lets each source read less. In the plan that it then
runs, a column that the query does not use is a null of Spark, which costs nothing.
"""

from connectors_core.spark.pushdown.explanation import explanation
from connectors_core.spark.pushdown.occurrences import PushableSource
from connectors_core.spark.pushdown.push_down import PUSHDOWN_CONF, Pushdown, push_down

__all__ = ["PUSHDOWN_CONF", "PushableSource", "Pushdown", "explanation", "push_down"]
