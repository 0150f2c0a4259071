# SPDX-License-Identifier: Apache-2.0
"""Lets the tests import the helper modules in this folder."""

import os
import sys
from pathlib import Path

from hypothesis import settings

TESTS = Path(__file__).parent
BROKEN = str(TESTS / "broken")
sys.path[:0] = [str(TESTS), BROKEN]
# Spark imports formats in processes of its own.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [BROKEN, os.environ.get("PYTHONPATH")]))

# A busy machine makes the duration of an example meaningless.
settings.register_profile("connector", deadline=None)
settings.load_profile("connector")
