# SPDX-License-Identifier: Apache-2.0
"""Lets the tests of a folder import its helper modules."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).with_name(folder)) for folder in ("unit", "spark")]
