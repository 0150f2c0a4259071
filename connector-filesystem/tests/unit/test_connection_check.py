# SPDX-License-Identifier: Apache-2.0
"""Tests that unusable filesystems are reported before a pipeline starts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from connector_filesystem import FileSink, FileSource
from connectors_core.engine.state import StateStore
from connectors_core.errors import ConfigurationError, StateLocationError
from connectors_core.testing import check_connections


def test_a_path_that_is_not_there_yet_is_reachable(tmp_path: Path) -> None:
    folder = str(tmp_path / "later" / "in")
    source = FileSource(folder, format="csv", schema="n BIGINT")
    check_connections({"source": source, "sink": FileSink(folder, format="csv")}, 5.0)
    assert not (tmp_path / "later").exists()


@pytest.mark.parametrize("which", ["source", "sink"])
def test_a_folder_that_this_user_may_not_use_is_named(
    tmp_path: Path, which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Root may use every folder: what the system answers is replaced, for this folder only.
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


def test_hdfs_without_its_native_library_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from pyarrow.fs import HadoopFileSystem

    def unable(*_: object, **__: object) -> None:
        raise OSError("Unable to load libjvm\ndlopen(libjvm.so) failed\ndlopen(other) failed")

    monkeypatch.setattr("pyarrow.fs.HadoopFileSystem", unable)
    assert HadoopFileSystem is not unable
    source = FileSource("hdfs://namenode.invalid:8020/in", format="csv", schema="n BIGINT")
    with pytest.raises(ConfigurationError, match="needs the native library libjvm") as raised:
        check_connections({"source": source}, 5.0)
    assert "CLASSPATH" in str(raised.value.__cause__)
    assert "dlopen" not in str(raised.value)


def test_a_state_location_on_hdfs_says_so_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def unable(*_: object, **__: object) -> None:
        raise OSError("Unable to load libhdfs: no such file")

    monkeypatch.setattr("pyarrow.fs.HadoopFileSystem", unable)
    with pytest.raises(ConfigurationError, match="needs the native library libhdfs") as raised:
        StateStore("hdfs://other.invalid:8020/state").verify()
    assert raised.value.option == "state_location"
    assert not isinstance(raised.value, StateLocationError)
