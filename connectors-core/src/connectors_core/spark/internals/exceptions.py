# SPDX-License-Identifier: Apache-2.0
"""The errors that pyspark raises for exceptions of the JVM."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from connectors_core.errors import UnsupportedError

# Spark names the source after its message: that of the native carrier, or that of a MemoryStream.
_ACTION: Final = re.compile(
    r"Queries with streaming sources must be executed with writeStream\.start\(\).*;"
    r"\s+(?:connectors_|memory$)"
)


def explain_actions_on_streams() -> None:
    """Let `collect`, `show`, and all other actions on a stream of a pipeline say what to do.

    For this, pyspark must convert exceptions of the JVM with another function.
    """
    from pyspark.errors.exceptions import captured

    module: Any = captured
    if not isinstance(module.convert_exception, _Explaining):
        module.convert_exception = _Explaining(module.convert_exception)


@dataclass(frozen=True)
class _Explaining:
    convert: Callable[[Any], Exception]

    def __call__(self, exception: Any) -> Exception:
        from pyspark.errors import AnalysisException

        error = self.convert(exception)
        if not (isinstance(error, AnalysisException) and _ACTION.match(str(error))):
            return error
        return UnsupportedError(
            "collect(), show(), and other actions read no stream of a pipeline",
            expected="a sink of the pipeline, or the DataFrame of a batch run",
            hint='print the rows with pipeline.sink_to(df, PrintSink(), uid="print") and '
            "pipeline.run(), or pipeline.run(available_now=True) if the source has no end; "
            "without streaming=True, a source that ends gives a DataFrame for actions",
        )
