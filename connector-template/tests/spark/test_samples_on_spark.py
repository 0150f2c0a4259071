# SPDX-License-Identifier: Apache-2.0
"""Runs the Spark tests of the samples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from generated_project import succeed
from sample_project import SAMPLES


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("folder", SAMPLES, ids=lambda folder: folder.name)
def test_the_suites_of_a_sample_pass_on_spark(
    make_sample: Callable[[Path], Path], folder: Path
) -> None:
    quiet = ("-q", "-m", "not slow", "-p", "no:cacheprovider")
    succeed(make_sample(folder), "-m", "pytest", *quiet, "tests/spark")
