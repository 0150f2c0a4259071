# SPDX-License-Identifier: Apache-2.0
"""Tests that missing files of stored state are reported, written on request, and never changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from connectors_core.testing.stored_state import stored_files

pytest_plugins = ["pytester"]

SUITE = """
import sys
sys.path.insert(0, {folder!r})
from pathlib import Path
from toy_sink import Directory
from connectors_core.testing import SerializerTestSuite

class TestStored(SerializerTestSuite):
    state_folder = Path({state!r})

    def external_context(self, folder):
        return Directory(folder)
"""
CASES = ("-k", "has_a_file or earlier_releases")


@pytest.fixture
def state(pytester):
    """Create a suite without stored files, and return its folder."""
    folder = pytester.path / "state"
    here = str(Path(__file__).parent)
    pytester.makeini("[pytest]\nconnector_suites = true")
    pytester.makepyfile(test_stored=SUITE.format(folder=here, state=str(folder)))
    return folder


def test_a_missing_file_fails_with_the_command_that_writes_it(pytester, state):
    result = pytester.runpytest(*CASES)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*committable-v1.bin is missing*--connector-write-state*"])
    assert not state.exists()


def test_a_missing_file_is_written_once(pytester, state):
    pytester.runpytest(*CASES, "--connector-write-state").assert_outcomes(passed=2)
    (file,) = stored_files(state)
    assert (file.kind, file.version) == ("committable", 1)
    before = file.path.read_bytes()
    pytester.runpytest(*CASES, "--connector-write-state").assert_outcomes(passed=2)
    assert file.path.read_bytes() == before


def test_an_unreadable_file_is_a_failure(pytester, state):
    state.mkdir()
    (state / "committable-v1.bin").write_bytes(b'{"former": 1}')
    result = pytester.runpytest(*CASES)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*committable-v1.bin can no longer be read*"])


def test_a_file_with_an_invalid_name_is_refused(tmp_path):
    (tmp_path / "committable.bin").touch()
    with pytest.raises(AssertionError, match="not named"):
        list(stored_files(tmp_path))
