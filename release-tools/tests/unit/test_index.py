# SPDX-License-Identifier: Apache-2.0
import hashlib
import http.client
import json
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from release_tree import make_wheel
from typer.testing import CliRunner

from connector_release_tools.cli import app
from connector_release_tools.distributions import Distribution
from connector_release_tools.environments import Environment
from connector_release_tools.errors import DistributionError, IndexFolderError
from connector_release_tools.index.directory import DirectoryIndex
from connector_release_tools.index.server import IndexServer, serving

WHEEL = "connector_one-2.0.0.3.5-py3-none-any.whl"
JSON = "application/vnd.pypi.simple.v1+json"
HTML = "application/vnd.pypi.simple.v1+html"
# What each pip asks for, as recorded from it; pip 22.2 to 26.3 ask for the same.
PIP_22_0 = "text/html"
PIP_22_2 = f"{JSON}, {HTML}; q=0.1, text/html; q=0.01"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return make_wheel(
        tmp_path_factory.mktemp("wheels"), "connector-one", "2.0.0.3.5", "Requires-Python: >=3.11"
    )


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    return make_wheel(
        tmp_path_factory.mktemp("other"), "connector-one", "2.0.0.3.5", "Summary: another"
    )


@pytest.fixture
def index(tmp_path, wheel):
    index = DirectoryIndex(tmp_path / "index")
    assert index.add(Distribution.of(wheel))
    return index


@pytest.fixture(scope="module")
def address(tmp_path_factory, wheel):
    """Serve an index next to a file that does not belong to it, and return the URL."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "secret").write_text("nobody's")
    index = DirectoryIndex(folder / "index")
    index.add(Distribution.of(wheel))
    (index.simple / "connector-one" / "link").symlink_to(folder / "secret")
    (index.simple / "linked").symlink_to(folder)
    with serving(index.folder) as url:
        yield urlsplit(url).netloc


def get(address, path, method="GET", **headers):
    connection = http.client.HTTPConnection(address, timeout=30)
    try:
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


def page(index, project="connector-one"):
    return json.loads((index.simple / project / "index.json").read_text())


def test_a_page_names_each_file_with_its_hashes(index, wheel):
    (file,) = page(index)["files"]
    assert file["filename"] == file["url"] == WHEEL
    assert file["hashes"] == {"sha256": hashlib.sha256(wheel.read_bytes()).hexdigest()}
    assert file["requires-python"] == ">=3.11"
    assert file["size"] == wheel.stat().st_size
    metadata = (index.simple / "connector-one" / f"{WHEEL}.metadata").read_bytes()
    assert file["core-metadata"] == {"sha256": hashlib.sha256(metadata).hexdigest()}
    assert page(index)["versions"] == ["2.0.0.3.5"]
    html = (index.simple / "connector-one" / "index.html").read_text()
    assert f'href="{WHEEL}#sha256={file["hashes"]["sha256"]}"' in html
    assert 'data-requires-python="&gt;=3.11"' in html


def test_an_existing_file_is_not_added_again(index, wheel):
    assert not index.add(Distribution.of(wheel))


def test_a_file_is_never_replaced_by_another(index, wheel, other):
    with pytest.raises(IndexFolderError, match="new file has") as caught:
        index.add(Distribution.of(other))
    assert "release the next version" in caught.value.hint
    assert index.find(WHEEL).sha256 == Distribution.of(wheel).sha256


def test_a_staging_index_accepts_a_replacement(index, other):
    assert index.add(Distribution.of(other), replace=True)
    (file,) = page(index)["files"]
    assert file["hashes"]["sha256"] == Distribution.of(other).sha256


def test_a_removed_file_disappears_from_the_pages(index):
    assert index.remove(WHEEL)
    assert index.projects() == []
    assert json.loads((index.simple / "index.json").read_text())["projects"] == []
    assert not index.remove(WHEEL)


def test_a_file_with_another_version_in_its_name_is_refused(index, wheel, tmp_path):
    renamed = tmp_path / WHEEL.replace("2.0.0", "3.0.0")
    renamed.write_bytes(wheel.read_bytes())
    with pytest.raises(DistributionError, match="which differs from its file name"):
        index.add(Distribution.of(renamed))


def test_a_file_that_is_not_a_distribution_is_refused(tmp_path):
    (tmp_path / "one.zip").touch()
    with pytest.raises(DistributionError, match="neither a wheel nor"):
        Distribution.of(tmp_path / "one.zip")


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("*/*", "text/html"),
        (JSON, JSON),
        (PIP_22_0, "text/html"),
        (PIP_22_2, JSON),
        (f"{JSON};q=0.1, text/html", "text/html"),
        ("application/*", HTML),
        ("text/html;q=0, */*;q=0.1", HTML),
    ],
)
def test_a_client_gets_the_format_it_prefers(address, accept, kind):
    status, headers, content = get(address, "/simple/connector-one/", Accept=accept)
    assert (status, headers["Content-Type"]) == (200, kind)
    assert headers["Vary"] == "Accept"
    assert content.startswith(b"{" if kind == JSON else b"<!DOCTYPE html>")


def test_the_metadata_have_only_names_that_every_pip_can_read(address):
    """pip 22.3 to 23.1 expect texts, and fail at the object below the first name of PEP 691."""
    asked = get(address, "/simple/connector-one/", Accept=PIP_22_2)[2]
    (file,) = json.loads(asked)["files"]
    assert "core-metadata" in file
    assert "dist-info-metadata" not in file
    html = get(address, "/simple/connector-one/", Accept=PIP_22_0)[2].decode()
    digest = file["core-metadata"]["sha256"]
    assert f'data-core-metadata="sha256={digest}"' in html
    assert f'data-dist-info-metadata="sha256={digest}"' in html


def test_an_unsupported_format_is_an_error(address):
    assert get(address, "/simple/", Accept="image/png")[0] == 406


def test_files_and_their_metadata_are_served(address, wheel):
    status, _, content = get(address, f"/simple/connector-one/{WHEEL}")
    assert (status, content) == (200, wheel.read_bytes())
    assert b"Version: 2.0.0.3.5" in get(address, f"/simple/connector-one/{WHEEL}.metadata")[2]
    status, headers, content = get(address, f"/simple/connector-one/{WHEEL}", method="HEAD")
    assert (status, int(headers["Content-Length"]), content) == (200, wheel.stat().st_size, b"")


@pytest.mark.parametrize("asked", ["Connector_One/", "connector-one", "connector.one"])
def test_other_spellings_of_a_project_redirect_to_it(address, asked):
    status, headers, _ = get(address, f"/simple/{asked}")
    assert (status, headers["Location"]) == (301, "/simple/connector-one/")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/secret",
        "/simple/nobody/",
        "/simple/../../secret",
        "/simple/connector-one/../../../secret",
        "/simple/connector-one/..%2f..%2f..%2fsecret",
        "/simple/%2e%2e/secret",
        "/simple/connector-one/link",
        "/simple/linked/secret",
        "/simple/connector-one/index.html",
    ],
)
def test_other_paths_are_not_found(address, path):
    assert get(address, path)[0] == 404


@given(st.lists(st.sampled_from(
    ["simple", "connector-one", "linked", "link", "..", ".", "", "%2e%2e", "..%2f..", "secret",
     "index", "%00"]), max_size=6))  # fmt: skip
def test_no_path_escapes_the_index(address, parts):
    assert b"nobody's" not in get(address, "/" + "/".join(parts))[2]


def test_only_local_clients_are_served(index):
    with IndexServer(index) as server:
        assert server.server_address[0] == "127.0.0.1"


def test_uv_installs_a_package_from_the_index(address, tmp_path, monkeypatch):
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"http://{address}/simple/")
    environment = Environment.create(tmp_path / "env")
    environment.install("connector-one==2.0.0.*")
    assert environment.versions()["connector-one"] == "2.0.0.3.5"


def test_the_commands_add_and_remove_files(tmp_path, wheel):
    folder = str(tmp_path / "index")
    runner = CliRunner()
    said = [
        runner.invoke(app, ["index", *words]).output
        for words in (
            ["add", folder, str(wheel)],
            ["add", folder, str(wheel)],
            ["remove", folder, WHEEL],
            ["remove", folder, WHEEL],
        )
    ]
    assert said == [
        f"{WHEEL}: {what}\n"
        for what in ("added", "already in the index", "removed", "not in the index")
    ]
