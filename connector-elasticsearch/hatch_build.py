# SPDX-License-Identifier: Apache-2.0
"""One source tree, one distribution for each Spark line.

`CONNECTOR_SPARK=3.5` builds version 2.0.0 as 2.0.0.3.5, which requires pyspark 3.5. Without
it the build is the plain version for development, which leaves pyspark alone.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

# The newest that a Spark line works with: pyarrow 26 refuses numpy 1, which Spark 3.5 needs.
LIBRARIES = {
    "3.5": ["numpy<2", "pandas<3", "pyarrow<26"],
    "4.3": ["pandas<3"],
}


class SparkLine(MetadataHookInterface):
    def update(self, metadata: dict) -> None:
        declared = tomllib.loads(Path(self.root, "pyproject.toml").read_text(encoding="utf-8"))
        connector = declared["tool"]["connector"]
        version, dependencies = connector["version"], list(connector["dependencies"])
        if line := os.environ.get("CONNECTOR_SPARK"):
            if line not in connector["spark"]:
                supported = " or ".join(connector["spark"])
                raise ValueError(f"CONNECTOR_SPARK: expected {supported}, found {line!r}")
            major, minor = line.split(".")
            version = f"{version}.{line}"
            dependencies += [f"pyspark>={line},<{major}.{int(minor) + 1}", *LIBRARIES[line]]
        metadata["version"] = version
        metadata["dependencies"] = dependencies
