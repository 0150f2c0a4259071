# SPDX-License-Identifier: Apache-2.0
"""The former name of `connectors_core.spark`; import `Pipeline` from `connectors_core`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from connectors_core.annotations import former_names

if TYPE_CHECKING:
    from connectors_core import Pipeline
else:
    __getattr__ = former_names(
        __name__,
        {
            "Pipeline": "connectors_core.Pipeline",
        },
    )

__all__ = ["Pipeline"]
