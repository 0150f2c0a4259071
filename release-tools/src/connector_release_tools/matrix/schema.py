# SPDX-License-Identifier: Apache-2.0
"""The JSON schema of the matrix, for editors and for `check-jsonschema`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from connector_release_tools.matrix.file import MATRIX
from connector_release_tools.matrix.model import Matrix

__all__ = ["SCHEMA", "schema"]

SCHEMA: Final = Path(__file__).with_name("schema.json")


def schema() -> str:
    """Return the schema, generated from the classes of the matrix."""
    made = Matrix.model_json_schema()
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": MATRIX}
    return json.dumps({**made, **head}, indent=2) + "\n"
