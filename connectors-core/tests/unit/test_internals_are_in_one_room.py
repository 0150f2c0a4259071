# SPDX-License-Identifier: Apache-2.0
"""Tests that only `connectors_core.spark.internals` uses private attributes of pyspark."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import connectors_core

ROOT = Path(connectors_core.__file__).parent
ROOM = ROOT / "spark" / "internals"
OWN = {"self", "cls", "os"}


def private_uses(code: str) -> Iterator[str]:
    """Yield uses of private attributes of other objects and of private pyspark names in text."""
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Attribute(value=ast.Name(id=owner)) if owner in OWN:
                pass
            case ast.Attribute(attr=name) if name.startswith("_") and not name.startswith("__"):
                yield f"{node.lineno}: .{name}"
            case ast.Constant(value=str(name)) if name in ("_jvm", "_jdf", "_jsc", "_gateway"):
                yield f"{node.lineno}: {name!r}"


@pytest.mark.parametrize(
    "code", ["df._jdf.schema()", "getattr(spark, '_jvm', None)", "cast(Any, context)._jsc.sc()"]
)
def test_a_private_use_is_detected(code: str) -> None:
    assert list(private_uses(code))


def test_no_other_module_that_imports_pyspark_uses_private_attributes() -> None:
    found = {
        str(path.relative_to(ROOT)): uses
        for path in ROOT.rglob("*.py")
        if ROOM not in path.parents
        and "pyspark" in (code := path.read_text(encoding="utf-8"))
        and (uses := list(private_uses(code)))
    }
    assert found == {}
