# SPDX-License-Identifier: Apache-2.0
"""Generates connectors and samples from the template, each once in a test run."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from generated_project import generated
from sample_project import Sample

# Their tests run in the projects that they belong to.
collect_ignore = ["samples"]

Generate = Callable[..., Path]


@pytest.fixture(scope="session")
def generate(tmp_path_factory: pytest.TempPathFactory) -> Generate:
    """Return a function that generates a connector and returns its folder."""

    @functools.cache
    def made(
        name: str,
        source: bool,
        sink: bool,
        sink_kind: str = "two-phase",
        lookup: bool = False,
        table: bool = False,
        catalog: bool = False,
        compaction: bool = False,
        topologies: bool = False,
        changes: bool = False,
    ) -> Path:
        answers = {
            "name": name,
            "source": source,
            "sink": sink,
            "sink_kind": sink_kind,
            "lookup": lookup,
            "table": table,
            "catalog": catalog,
            "compaction": compaction,
            "topologies": topologies,
            "changes": changes,
        }
        return generated(answers, tmp_path_factory.mktemp("connectors"))

    return made


@pytest.fixture(scope="session")
def make_sample(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Return a function that makes the connector of a sample and returns its folder."""

    @functools.cache
    def made(folder: Path) -> Path:
        sample = Sample.in_folder(folder)
        project = generated(sample.answers, tmp_path_factory.mktemp("samples"))
        sample.lay_over(project)
        return project

    return made


@pytest.fixture(scope="session")
def types_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a cache that all checks of types share."""
    return tmp_path_factory.mktemp("mypy")
