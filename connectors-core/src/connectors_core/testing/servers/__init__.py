# SPDX-License-Identifier: Apache-2.0
"""What it takes to run a real system beside the tests, as a Java process and without a container.

Pinned files are fetched once into the user's cache; processes die with the one that started them;
a network that can be made bad stands between them and their clients.
"""

from connectors_core.testing.servers.artifacts import (
    Artifact,
    PinnedArtifacts,
    cache_folder,
    exclusively,
    find_java,
)
from connectors_core.testing.servers.certificates import Authority, Identity
from connectors_core.testing.servers.errors import ServerError
from connectors_core.testing.servers.guard import GuardedProcess
from connectors_core.testing.servers.network import FaultyNetwork
from connectors_core.testing.servers.ports import HOST, free_ports
from connectors_core.testing.servers.relay import HttpAnswer, HttpRelay, HttpRequest
from connectors_core.testing.servers.s3 import S3Server
from connectors_core.testing.servers.server import ServerProcess

__all__ = [
    "HOST",
    "Artifact",
    "Authority",
    "FaultyNetwork",
    "GuardedProcess",
    "HttpAnswer",
    "HttpRelay",
    "HttpRequest",
    "Identity",
    "PinnedArtifacts",
    "S3Server",
    "ServerError",
    "ServerProcess",
    "cache_folder",
    "exclusively",
    "find_java",
    "free_ports",
]
