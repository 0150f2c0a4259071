# SPDX-License-Identifier: Apache-2.0
"""Tests the test server: start, stop, crash, freeze, and logins."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from connector_elasticsearch.testing import (
    ElasticsearchServer,
    ElasticsearchServerError,
    ServerSecurity,
)
from connectors_core.errors import ConfigurationError
from connectors_core.testing.servers import Authority, find_java

pytestmark = pytest.mark.line("3.5")  # these tests do not use Spark


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/_cluster/health", timeout=20):
            return True
    except OSError:
        return False


def test_data_and_address_survive_a_crash_and_a_restart() -> None:
    with ElasticsearchServer() as server:
        address = server.url
        server.request("PUT", "/flights/_doc/1", {"carrier": "UA"})
        server.kill()
        assert not server.running
        with pytest.raises(ElasticsearchServerError, match="received no response"):
            server.count("flights")
        server.start()
        server.request("PUT", "/flights/_doc/2", {"carrier": "B6"})
        server.restart()
        assert server.url == address
        assert [hit["_source"]["carrier"] for hit in server.documents("flights")] == ["UA", "B6"]
        server.pause()
        with pytest.raises(TimeoutError):
            urllib.request.urlopen(server.url, timeout=0.5)
        server.resume()
        assert server.count("flights") == 2
        with pytest.raises(ElasticsearchServerError, match="failed with status 404"):
            server.count("planes")


def test_the_server_requires_a_valid_login() -> None:
    names = []
    security = ServerSecurity(authority=Authority.create(), api_keys=True)
    with ElasticsearchServer(security=security) as server:
        assert server.url.startswith("https://")
        server.request("PUT", "/flights/_doc/1?refresh=true", {"carrier": "UA"})
        trusting = ssl.create_default_context(cadata=security.authority.certificate)
        path = f"{server.url}/flights/_count"
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(path, timeout=20, context=trusting)
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            urllib.request.urlopen(path, timeout=20)
        key = server.api_key({"flights": ["read"]})
        for login in (f"Bearer {security.bearer_token.reveal()}", f"ApiKey {key.reveal()}"):
            request = urllib.request.Request(f"{server.url}/_security/_authenticate")
            request.add_header("Authorization", login)
            with urllib.request.urlopen(request, timeout=20, context=trusting) as answer:
                names.append(json.loads(answer.read())["username"])
        assert names == ["elastic/fleet-server", "tester"]
        assert security.password.reveal() not in server.log


def test_the_server_stops_when_its_parent_process_is_killed() -> None:
    program = (
        "import sys; from connector_elasticsearch.testing import ElasticsearchServer\n"
        "with ElasticsearchServer() as server: print(server.url, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout
        url = parent.stdout.readline().strip()
        assert answers(url)
        parent.kill()
    deadline = time.monotonic() + 20
    while answers(url):
        assert time.monotonic() < deadline, "the server outlived its parent"


def test_a_server_that_cannot_start_reports_the_reason() -> None:
    with pytest.raises(ElasticsearchServerError, match=r"no\.such\.setting"):
        ElasticsearchServer(settings={"no.such.setting": "1"}).__enter__()


def test_an_unpinned_version_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"8\.19\.21"):
        ElasticsearchServer(version="7.17.0")


def test_elasticsearch_9_runs_if_its_java_version_is_installed() -> None:
    try:
        find_java(21)
    except ConfigurationError:
        pytest.skip("Elasticsearch 9 needs Java 21, and there is none")
    with ElasticsearchServer(version="9.5.3") as server:
        server.request("PUT", "/flights/_doc/1", {"carrier": "UA"})
        assert server.count("flights") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_the_server_does_not_run_as_root() -> None:
    with ElasticsearchServer() as server:
        (node,) = server.request("GET", "/_nodes/process")["nodes"].values()
        with open(f"/proc/{node['process']['id']}/status", encoding="ascii") as status:
            (user,) = [line.split()[1] for line in status if line.startswith("Uid:")]
        assert user == "65534"
