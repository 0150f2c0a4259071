# SPDX-License-Identifier: Apache-2.0
"""One source tree, one distribution for each Spark line.

`CONNECTOR_SPARK=3.5` builds version 2.0.0 as 2.0.0.3.5. The platform provides pyspark, so pyspark
and the packages that only pyspark needs are in the extra `spark`. An editable install works with
every line.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

# The newest versions that work with each Spark line. pyarrow 26 rejects numpy 1, which 3.5 needs.
LIBRARIES = {
    "3.5": ["numpy<2", "pandas<3", "pyarrow<26"],
    "4.3": ["pandas<3"],
}


def declared(root: str) -> dict:
    """Return the table [tool.connector] of pyproject.toml."""
    text = Path(root, "pyproject.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)["tool"]["connector"]


class SparkLine(MetadataHookInterface):
    def update(self, metadata: dict) -> None:
        connector = declared(self.root)
        version, spark = connector["version"], ["pyspark"]
        if line := os.environ.get("CONNECTOR_SPARK"):
            if line not in connector["spark"]:
                supported = " or ".join(connector["spark"])
                raise ValueError(f"CONNECTOR_SPARK: expected {supported}, found {line!r}")
            major, minor = line.split(".")
            version = f"{version}.{line}"
            spark = [f"pyspark>={line},<{major}.{int(minor) + 1}", *LIBRARIES[line]]
        metadata["version"] = version
        metadata["dependencies"] = connector["dependencies"]
        metadata["optional-dependencies"] = {"spark": spark}


class NamedLine(BuildHookInterface):
    def initialize(self, version: str, build_data: dict) -> None:
        connector = declared(self.root)
        if version != "editable" and self.metadata.version == connector["version"]:
            lines = " or ".join(connector["spark"])
            raise ValueError(
                f"CONNECTOR_SPARK: expected {lines}, found nothing; a distribution is for one line "
                "of Spark"
            )
