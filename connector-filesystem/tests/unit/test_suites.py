# SPDX-License-Identifier: Apache-2.0
"""The suites of the core, on files, in this process."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from file_suites import FileSinkSuite, FileSourceSuite


class TestFileSource(FileSourceSuite):
    pass


class TestFileSink(FileSinkSuite):
    pass
