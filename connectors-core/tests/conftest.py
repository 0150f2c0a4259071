# SPDX-License-Identifier: Apache-2.0
"""Makes the helper modules of a folder importable in its tests."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).with_name(folder)) for folder in ("unit", "spark")]
