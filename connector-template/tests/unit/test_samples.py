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


@pytest.mark.timeout(900)
def test_the_suites_pass(sample: Path) -> None:
    report = pass_tests(sample)
    assert report["not_run"]["cases"] == []


def test_a_sample_that_no_longer_fits_the_template_is_noticed(tmp_path: Path) -> None:
    project, folder = tmp_path / "project", tmp_path / "sample"
    declared = 'added = ["gone.py", "new.py", "old.py"]\ndeleted = ["edited.py", "gone.py"]\n'
    written = {
        project: {"edited.py": "a", "old.py": "a", "same.py": "a"},
        folder: {"edited.py": "b", "new.py": "b", "old.py": "b", "renamed.py": "b", "same.py": "a"},
    }
    for base, files in written.items():
        base.mkdir()
        for name, text in files.items():
            (base / name).write_text(text)
    (folder / "sample.toml").write_text(f"{declared}[answers]\n")
    assert list(Sample.in_folder(folder).misfits(project)) == [
        "gone.py: `added` lists it, and the sample lacks it",
        "old.py: the template generates it; remove it from `added`",
        "renamed.py: the template does not generate it; rename it, or add it to `added`",
        "same.py: it is as generated; delete it from the sample",
        "edited.py: the sample has it; remove it from `deleted`",
        "gone.py: the template does not generate it; remove it from `deleted`",
    ]
