# SPDX-License-Identifier: Apache-2.0
"""A real Elasticsearch for tests and examples: one Java process, without a container.

Needs Java 17 for Elasticsearch 8 and Java 21 for Elasticsearch 9. Elastic's own artifact is
downloaded once to the user's cache. It has Elastic's license and is never shipped.
"""

from connector_elasticsearch.testing.errors import ElasticsearchServerError
from connector_elasticsearch.testing.plugins import Plugin
from connector_elasticsearch.testing.security import ServerSecurity
from connector_elasticsearch.testing.server import ElasticsearchServer

__all__ = [
    "ElasticsearchServer",
    "ElasticsearchServerError",
    "Plugin",
    "ServerSecurity",
]
