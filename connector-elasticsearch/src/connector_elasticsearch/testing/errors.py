# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with the Elasticsearch of the tests."""

from __future__ import annotations

from connectors_core.testing.servers import ServerError

__all__ = ["ElasticsearchServerError"]


class ElasticsearchServerError(ServerError):
    """The Elasticsearch of the tests did not do what it was started for, or refused a request."""

    code = "ELASTICSEARCH_TEST_SERVER"
