# SPDX-License-Identifier: Apache-2.0
"""Generates connectors from the template, each once in a test run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest
from cookiecutter.main import cookiecutter

TEMPLATE = Path(__file__).parents[1]

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
        }
        folder = tmp_path_factory.mktemp("connectors")
        config = folder / "empty-user-config.yaml"
        config.write_text("{}")
        return Path(
            cookiecutter(
                str(TEMPLATE),
                no_input=True,
                extra_context=answers,
                output_dir=str(folder),
                config_file=str(config),
            )
        )

    return made
