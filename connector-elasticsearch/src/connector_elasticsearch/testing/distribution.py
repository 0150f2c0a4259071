# SPDX-License-Identifier: Apache-2.0
"""Elastic's distribution for integration tests, unpacked, and the Java to run it.

It is the unmodified server with four modules: transport-netty4, x-pack-core, x-pack-security, and
apm. The features of other modules are missing: scripts, ingest processors, ILM, SQL, ES|QL.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connector_elasticsearch.testing.plugins import Plugin
from connectors_core.errors import ConfigurationError
from connectors_core.testing.servers import (
    Artifact,
    PinnedArtifacts,
    cache_folder,
    exclusively,
    find_java,
)

FOLDER_VARIABLE: Final = "CONNECTORS_ELASTICSEARCH_ZIPS"
_GROUP: Final = "org.elasticsearch.distribution.integ-test-zip"
_DIGESTS: Final = {
    "8.19.21": "215d5f3dbf0609a149f6218a9e47b6ae2df34ebbff3c5754e35f15a5e5393c8a",  # pragma: allowlist secret  # noqa: E501
    "9.5.3": "bec49f3b8d00e75c8d1cec85c35298635ec9fbd3ae80ef5aeb6bc05abdb3db2d",  # pragma: allowlist secret  # noqa: E501
}
_OLDEST_JAVA: Final = {"8": 17, "9": 21}
# The cache for all users, by FHS 3.0: what root unpacks for another user must not be in root's
# home.
_SYSTEM_CACHE: Final = Path("/var/cache/connectors")


@dataclass(frozen=True)
class Distribution:
    """One version of the server.

    Attributes:
        version: A pinned version: 8.19.21 or 9.5.3.
        plugins: Plugins to add, which need Java's compiler once.
    """

    version: str
    plugins: tuple[Plugin, ...] = ()

    def __post_init__(self) -> None:
        if self.version not in _DIGESTS:
            raise ConfigurationError(
                "no Elasticsearch of this version is pinned",
                expected=sorted(_DIGESTS),
                found=self.version,
            )

    @property
    def java_home(self) -> Path:
        """Return the home of a Java that runs it.

        Raises:
            ConfigurationError: There is no such Java.
        """
        oldest = _OLDEST_JAVA[self.version.partition(".")[0]]
        return Path(find_java(oldest)).resolve().parent.parent

    @property
    def home(self) -> Path:
        """Return the folder of its programs. Missing programs are downloaded and unpacked.

        Raises:
            ConfigurationError: The folder for offline use lacks it, or contains another version.
            ElasticsearchServerError: A plugin could not be compiled.
            MissingDependencyError: PySpark, whose Ivy fetches it, is not installed.
            ServerError: The download failed, or its digest differs from the pinned one.
        """
        cache = _SYSTEM_CACHE if os.geteuid() == 0 else cache_folder()
        folder = cache / "elasticsearch"
        found = folder / "-".join(
            ["elasticsearch", self.version, *(it.name for it in self.plugins)]
        )
        if not found.exists():
            with exclusively(folder):
                if not found.exists():
                    self._unpack(found)
        return found

    def _unpack(self, home: Path) -> None:
        """Unpack it into a folder, which appears once it is complete."""
        artifact = Artifact(
            _GROUP, "elasticsearch", self.version, _DIGESTS[self.version], extension="zip"
        )
        pinned = PinnedArtifacts(f"elasticsearch-{self.version}", (artifact,), FOLDER_VARIABLE)
        (path,) = pinned.paths()
        work = Path(tempfile.mkdtemp(dir=home.parent))
        try:
            with zipfile.ZipFile(path) as archive:
                archive.extractall(work)  # the digest has been checked
            unpacked = work / f"elasticsearch-{self.version}"
            for program in (unpacked / "bin").iterdir():
                program.chmod(0o755)  # zipfile does not preserve it
            for plugin in self.plugins:
                plugin.install(unpacked, self.version, self.java_home)
            unpacked.rename(home)
        finally:
            shutil.rmtree(work)
