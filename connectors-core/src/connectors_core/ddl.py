# SPDX-License-Identifier: Apache-2.0
"""The former name of `connectors_core.schema.ddl`, kept for released connectors."""

from __future__ import annotations

from connectors_core.schema.ddl import SCHEMA, parse_schema

__all__ = ["SCHEMA", "parse_schema"]
