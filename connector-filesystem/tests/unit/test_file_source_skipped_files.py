# SPDX-License-Identifier: Apache-2.0
"""Tests links, folders, and files that a source does not read."""

from __future__ import annotations

import logging
import os

import pytest
from file_discovery import (
    Context,
    files,
    monitored,
    take_all,
    write,
)

from connector_filesystem import FileSource
from connector_filesystem.listing import LeftOut
from connector_filesystem.source.reader import read_split
from connectors_core.errors import (
    ConfigurationError,
    SplitChangedError,
)


def test_links_are_followed_inside_the_path_and_reported_outside(tmp_path, caplog):
    top, outside = tmp_path / "in", tmp_path / "outside"
    for path in (top / "a.csv", top / "sub" / "b.csv", top / "..data" / "c.csv", outside / "d.csv"):
        write(path, 100)
    os.mkfifo(top / "pipe.csv")
    for name, target in {
        "c.csv": "..data/c.csv",
        "again.csv": "a.csv",
        "folder": "..data",
        "round": "../in",
        "sub/up": "..",
        "gone.csv": "nothing",
        "itself": "itself",
        "out.csv": outside / "d.csv",
        "out": outside,
        "z/none": top / "sub",
    }.items():
        link = top / name
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(target)
    source, context = FileSource(top, schema="x INT"), Context()
    enumerator = source.create_enumerator(context)
    enumerator.start()
    with caplog.at_level(logging.INFO):
        context.run_calls()
    assert sorted(take_all(enumerator, context)) == ["a.csv", "b.csv", "c.csv"]
    listing = source._selection.listing(may_be_missing=False)
    assert {os.path.relpath(path, top): reason for path, reason in listing.left_out.items()} == {
        "..data": LeftOut.HIDDEN,
        "again.csv": LeftOut.SAME_FILE,
        "folder/c.csv": LeftOut.SAME_FILE,
        "z/none/b.csv": LeftOut.SAME_FILE,
        "round": LeftOut.BROKEN_LINK,
        "sub/up": LeftOut.BROKEN_LINK,
        "z/none/up": LeftOut.BROKEN_LINK,
        "gone.csv": LeftOut.BROKEN_LINK,
        "itself": LeftOut.BROKEN_LINK,
        "out.csv": LeftOut.OUTSIDE,
        "out": LeftOut.OUTSIDE,
        "pipe.csv": LeftOut.SPECIAL,
    }
    gauges = context.metric_group.gauges
    assert gauges["leftOutFiles"] == len(listing.left_out)
    assert gauges["leftOutFiles.outside"] == 2
    warned = "".join(each.getMessage() for each in caplog.records if each.levelname == "WARNING")
    for name in ("round", "gone.csv", "itself", "out.csv", "pipe.csv"):
        assert str(top / name) in warned
    assert "again.csv" not in warned
    assert "again.csv" in caplog.text


def test_discovery_ends_if_folders_link_to_each_other(tmp_path):
    for name in "abcdef":
        write(tmp_path / f"_{name}" / f"{name}.csv", 100)
        for other in "abcdef":
            (tmp_path / f"_{name}" / f"to_{other}").symlink_to(tmp_path / f"_{other}")
    (tmp_path / "start").symlink_to("_a")
    assert sorted(name.rpartition("/")[2] for name in files(FileSource(tmp_path))) == [
        f"{name}.csv" for name in "abcdef"
    ]


def test_a_linked_file_is_read_and_its_change_is_detected(tmp_path):
    write(tmp_path / ".v1" / "a.csv", 100, "x\n1\n")
    (tmp_path / "a.csv").symlink_to(".v1/a.csv")
    source = FileSource(tmp_path, schema="x INT")
    (file,) = source._selection.files(may_be_missing=False)
    (split,) = source._selection.splits_of(file)
    assert sum(chunk.batch.num_rows for chunk in read_split(source.read_settings(), split)) == 1
    write(tmp_path / ".v2" / "a.csv", 200, "x\n2\n")
    (tmp_path / "a.csv").unlink()
    (tmp_path / "a.csv").symlink_to(".v2/a.csv")
    with pytest.raises(SplitChangedError):
        list(read_split(source.read_settings(), split))


def test_skipped_files_are_counted_at_every_listing_and_reported_once(tmp_path, caplog):
    for name in ("a.csv", "_SUCCESS", "b.csv.tmp", ".c.csv", "skip/d.csv"):
        write(tmp_path / name, 100)
    write(tmp_path / "empty.csv", 100, "")
    source = monitored(tmp_path, path_regex=r"[^/]*")
    context = Context()
    enumerator = source.create_enumerator(context)
    enumerator.start()
    with caplog.at_level(logging.INFO):
        context.run_calls()
        for name in ("_SUCCESS", "b.csv.tmp", ".c.csv", "skip/d.csv", "empty.csv"):
            assert str(tmp_path / name) in caplog.text
        caplog.clear()
        context.run_calls()
        assert caplog.text == ""
        (tmp_path / "b.csv.tmp").rename(tmp_path / "b.csv")
        for number in range(25):
            write(tmp_path / f"_{number:02d}", 100)
        context.run_calls()
    assert "and 5 more" in caplog.text
    assert take_all(enumerator, context) == ["a.csv", "b.csv"]
    gauges = context.metric_group.gauges
    assert {name: value for name, value in gauges.items() if "leftOut" in name} == {
        "leftOutFiles": 29,
        "leftOutFiles.hidden": 27,
        "leftOutFiles.incomplete": 0,
        "leftOutFiles.unmatched": 1,
        "leftOutFiles.empty": 1,
    }


def test_a_folder_that_cannot_be_listed_is_an_error(tmp_path, monkeypatch):
    write(tmp_path / "a.csv", 100)
    write(tmp_path / "closed" / "b.csv", 100)
    scan = os.scandir

    def refuse(path):
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)  # the user of the tests can be root
    with pytest.raises(ConfigurationError, match="closed"):
        FileSource(tmp_path)._selection.files(may_be_missing=False)
