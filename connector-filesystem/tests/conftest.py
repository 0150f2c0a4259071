# SPDX-License-Identifier: Apache-2.0
"""Lets the tests import the helper modules in this folder."""

import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

# A busy machine makes the duration of an example meaningless.
settings.register_profile("connector", deadline=None)
settings.load_profile("connector")
