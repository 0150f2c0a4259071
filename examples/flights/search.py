# SPDX-License-Identifier: Apache-2.0
"""An administrator's view of Elasticsearch: the planes to look up, and the written rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from connector_elasticsearch.testing import ElasticsearchServer
from examples.flights.data import FLIGHTS_INDEX, PLANES_INDEX, TOTALS_INDEX, Places, tables

_PAGE: Final = 2_000
_TEXTS_ARE_KEYWORDS: Final = {
    "dynamic_templates": [
        {"texts": {"match_mapping_type": "string", "mapping": {"type": "keyword"}}}
    ],
    "properties": {"time_hour": {"type": "date"}},
}
_GROUPS: Final = {
    "airline": "airline",
    "aircraft maker": "maker",
    "airport": "dest_name",
}
_SHOWN: Final = 15


def prepare_indices(server: ElasticsearchServer, places: Places) -> None:
    """Fill the index of planes by tail number, and create the empty indices."""
    for index in (FLIGHTS_INDEX, PLANES_INDEX, TOTALS_INDEX):
        server.request("PUT", f"/{index}", {"mappings": _TEXTS_ARE_KEYWORDS})
    with tables(places.raw) as database:
        planes = database.sql("FROM planes")
        names = planes.columns
        lines: list[Any] = []
        for plane in planes.fetchall():
            document = dict(zip(names, plane, strict=True))
            lines += [{"index": {"_id": document["tailnum"]}}, document]
    body = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
    answer = server.request("POST", f"/{PLANES_INDEX}/_bulk?refresh=true", body)
    assert not answer["errors"], answer


def documents(server: ElasticsearchServer, index: str) -> Iterator[dict[str, Any]]:
    """Return all documents of an index."""
    server.request("POST", f"/{index}/_refresh")
    body = {"size": _PAGE, "sort": ["_doc"]}
    page = server.request("POST", f"/{index}/_search?scroll=1m", body)
    while hits := page["hits"]["hits"]:
        yield from (hit["_source"] for hit in hits)
        scroll = {"scroll": "1m", "scroll_id": page["_scroll_id"]}
        page = server.request("POST", "/_search/scroll", scroll)


def mean_delays(server: ElasticsearchServer) -> dict[str, tuple[str, list[tuple[str, float]]]]:
    """Return the query, and the mean delays of the most frequent values, by group."""
    found = {}
    for title, name in _GROUPS.items():
        query = {
            "size": 0,
            "aggs": {
                "groups": {
                    "terms": {"field": name, "size": _SHOWN},
                    "aggs": {"delay": {"avg": {"field": "dep_delay"}}},
                }
            },
        }
        answer = server.request("POST", f"/{FLIGHTS_INDEX}/_search", query)
        buckets = answer["aggregations"]["groups"]["buckets"]
        means = [(each["key"], each["delay"]["value"] or 0.0) for each in buckets]
        found[title] = (json.dumps(query), sorted(means, key=lambda mean: -mean[1]))
    return found
