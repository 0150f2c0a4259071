# SPDX-License-Identifier: Apache-2.0
"""The former name of `connectors_core.spark`; import `Pipeline` from `connectors_core`."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from connectors_core.annotations import ConnectorDeprecationWarning

if TYPE_CHECKING:
    from connectors_core.spark import Pipeline

__all__ = ["Pipeline"]


def __getattr__(name: str) -> Any:
    if name == "Pipeline":
        message = (
            "connectors_core.runtime is deprecated since 1.0 and will be removed in 2.0; "
            "use `from connectors_core import Pipeline` instead"
        )
        warning = ConnectorDeprecationWarning(message, since="1.0", removal="2.0")
        warnings.warn(warning, stacklevel=2)
        from connectors_core.spark import Pipeline

        return Pipeline
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
