# SPDX-License-Identifier: Apache-2.0
"""The former name of `connectors_core.schema`, kept for released connectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from connectors_core.annotations import former_names

if TYPE_CHECKING:
    from connectors_core.schema import SCHEMA, parse_schema
else:
    __getattr__ = former_names(
        __name__,
        {
            "SCHEMA": "connectors_core.schema.SCHEMA",
            "parse_schema": "connectors_core.schema.parse_schema",
        },
    )

__all__ = ["SCHEMA", "parse_schema"]
