# SPDX-License-Identifier: Apache-2.0
"""Tests that unusable filesystems are reported before a pipeline starts."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from connector_filesystem import FileSink, FileSource
from connectors_core.engine.state import StateStore
from connectors_core.errors import ConfigurationError, StateLocationError
from connectors_core.testing import check_connections


def test_a_path_that_does_not_exist_yet_is_reachable(tmp_path: Path) -> None:
    folder = str(tmp_path / "later" / "in")
    source = FileSource(folder, format="csv", schema="n BIGINT")
    check_connections({"source": source, "sink": FileSink(folder, format="csv")}, 5.0)
    assert not (tmp_path / "later").exists()


@pytest.mark.parametrize("which", ["source", "sink"])
def test_an_error_names_a_folder_that_the_user_cannot_access(
    tmp_path: Path, which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Root can access every folder, so the test replaces the system's answer for this folder.
    allowed = os.access
    wanted = os.R_OK if which == "source" else os.W_OK
    monkeypatch.setattr(
        os, "access", lambda path, how: str(path) != str(tmp_path) and allowed(path, how)
    )
    folder = str(tmp_path / "out") if which == "sink" else str(tmp_path)
    part = (
        FileSource(folder, format="csv", schema="n BIGINT")
        if which == "source"
        else FileSink(folder, format="csv")
    )
    with pytest.raises(ConfigurationError, match=str(tmp_path)):
        check_connections({which: part}, 5.0)
    assert allowed(tmp_path, wanted)


def without_hdfs(monkeypatch: pytest.MonkeyPatch, message: str) -> Callable[..., None]:
    """Replace the client of HDFS with a function that fails, and return the function."""

    def unable(*_: object, **__: object) -> None:
        raise OSError(message)

    monkeypatch.setattr("pyarrow.fs.HadoopFileSystem", unable)
    return unable


def test_an_error_for_hdfs_names_the_missing_native_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from pyarrow.fs import HadoopFileSystem

    message = "Unable to load libjvm\ndlopen(libjvm.so) failed\ndlopen(other) failed"
    assert HadoopFileSystem is not without_hdfs(monkeypatch, message)
    source = FileSource("hdfs://namenode.invalid:8020/in", format="csv", schema="n BIGINT")
    with pytest.raises(ConfigurationError, match="needs the native library libjvm") as raised:
        check_connections({"source": source}, 5.0)
    assert "CLASSPATH" in str(raised.value.__cause__)
    assert "dlopen" not in str(raised.value)


def test_an_error_for_a_state_location_on_hdfs_names_the_missing_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without_hdfs(monkeypatch, "Unable to load libhdfs: no such file")
    with pytest.raises(ConfigurationError, match="needs the native library libhdfs") as raised:
        StateStore("hdfs://other.invalid:8020/state").verify()
    assert raised.value.option == "state_location"
    assert not isinstance(raised.value, StateLocationError)
