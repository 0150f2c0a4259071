# SPDX-License-Identifier: Apache-2.0
"""Tests the samples: connectors that authors made from the template."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from generated_project import generated, in_style, pass_tests, typed
from sample_project import SAMPLES, Sample


@pytest.fixture(params=SAMPLES, ids=lambda folder: folder.name)
def folder(request: pytest.FixtureRequest) -> Path:
    return request.param


@pytest.fixture
def sample(folder: Path, make_sample: Callable[[Path], Path]) -> Path:
    return make_sample(folder)


def test_a_sample_has_only_what_an_author_edits(folder: Path, tmp_path: Path) -> None:
    found = Sample.in_folder(folder)
    project = generated(found.answers, tmp_path)
    assert project.name == folder.name
    assert list(found.misfits(project)) == []


def test_style(sample: Path) -> None:
    in_style(sample)


def test_types(sample: Path, types_cache: Path) -> None:
    typed(sample, types_cache)


def test_its_suites_pass_without_a_jvm(sample: Path) -> None:
    report = pass_tests(sample)
    assert report["not_run"]["cases"] == []
