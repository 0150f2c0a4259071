# SPDX-License-Identifier: Apache-2.0
"""Lets the tests share the modules of this folder that are no tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
