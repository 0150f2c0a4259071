# SPDX-License-Identifier: Apache-2.0
"""Tools that run a real system next to the tests, without containers.

Pinned files are downloaded once into the user's cache. Processes end with the process that started
them. A faulty network can be put between the systems and their clients.
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
from connectors_core.testing.servers.tcp_system import TcpTestSystem, direct_address

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
    "TcpTestSystem",
    "cache_folder",
    "direct_address",
    "exclusively",
    "find_java",
    "free_ports",
]
