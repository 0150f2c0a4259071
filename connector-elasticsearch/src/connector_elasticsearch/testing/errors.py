# SPDX-License-Identifier: Apache-2.0
"""The errors of the Elasticsearch server for tests."""

from __future__ import annotations

from connectors_core.testing.servers import ServerError

__all__ = ["ElasticsearchServerError"]


class ElasticsearchServerError(ServerError):
    """The Elasticsearch server for tests did not start, or rejected a request."""

    code = "ELASTICSEARCH_TEST_SERVER"
