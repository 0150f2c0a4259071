# SPDX-License-Identifier: Apache-2.0
"""Tests that one file that cannot be read stops no folder, if the source may skip it."""

from __future__ import annotations

import base64
import gzip
import logging
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.parquet import encryption
from reading_files import rows_of

from connector_filesystem import FileSink, FileSource
from connectors_core.errors import (
    ConfigurationError,
    ConnectorError,
    DataLossError,
    FatalError,
    SplitChangedError,
)
from connectors_core.records import RecordPolicy
from connectors_core.source import Comparison
from connectors_core.testing import LocalPipeline


class Folder:
    """A monitored folder, and the pipeline that reads it."""

    def __init__(self, root):
        self.root, self.input = root, root / "in"
        self.input.mkdir()

    def write(self, name, first):
        pq.write_table(pa.table({"id": list(range(first, first + 100))}), self.input / name)

    def damage(self, name):
        content = bytearray((self.input / name).read_bytes())
        content[10:60] = b"\xff" * 50
        (self.input / name).write_bytes(content)

    def run(self, policy=None, **options):
        source = FileSource(self.input, schema="id BIGINT", monitor_interval="1 s", **options)
        with LocalPipeline("p", checkpoint_location=str(self.root / "ck"), parallelism=1) as p:
            settings = {} if policy is None else {"record_policy": policy}
            rows = p.from_source(source, uid="files", **settings)
            p.sink_to(rows, FileSink(self.root / "out"), uid="sink")
            p.run(timeout=30, available_now=True, drain=False)

    def rows(self):
        files = sorted((self.root / "out").glob("*.parquet"))
        return sorted(n for each in files for n in pq.read_table(each).column("id").to_pylist())


@pytest.fixture
def folder(tmp_path):
    folder = Folder(tmp_path)
    folder.write("a.parquet", 0)
    folder.run()
    return folder


def fails(folder, error):
    with pytest.raises(error) as caught:
        folder.run()
    assert "set on_unreadable to skip" in str(caught.value)


def test_a_damaged_file_is_skipped_and_its_repaired_copy_is_read(folder, caplog):
    folder.write("b.parquet", 100)
    folder.damage("b.parquet")
    folder.write("c.parquet", 200)
    fails(folder, FatalError)
    with caplog.at_level(logging.WARNING):
        folder.run(on_unreadable="skip")
    assert folder.rows() == [*range(100), *range(200, 300)]
    assert re.search("b.parquet.*: the rest of the split is skipped", caplog.text)
    (folder.input / "b.parquet").unlink()
    folder.write("d.parquet", 100)
    folder.run()
    assert folder.rows() == [*range(300)]


def planned_but_not_read(folder):
    """Let a driver end after its plan, before a task reads the file."""
    folder.write("b.parquet", 100)
    folder.damage("b.parquet")
    folder.write("c.parquet", 200)
    fails(folder, FatalError)


def test_a_file_that_is_gone_is_skipped(folder):
    planned_but_not_read(folder)
    (folder.input / "b.parquet").unlink()
    fails(folder, DataLossError)
    folder.run(on_unreadable="skip")
    assert folder.rows() == [*range(100), *range(200, 300)]


def test_a_changed_file_is_skipped(folder):
    planned_but_not_read(folder)
    folder.write("b.parquet", 1000)
    fails(folder, SplitChangedError)
    folder.run(on_unreadable="skip")
    assert folder.rows()[:200] == [*range(100), *range(200, 300)]


def test_a_file_of_another_schema_is_skipped(folder):
    pq.write_table(pa.table({"other": [1]}), folder.input / "b.parquet")
    fails(folder, ConnectorError)
    folder.run(on_unreadable="skip")
    assert folder.rows() == [*range(100)]


def test_a_file_that_is_no_csv_is_skipped(folder):
    (folder.input / "b.csv").write_bytes(b"PAR1\r\x00\x15\x04\r\n")
    fails(folder, FatalError)
    folder.run(on_unreadable="skip")
    assert folder.rows() == [*range(100)]


def test_the_error_of_a_damaged_file_says_nothing_in_words_of_a_library(folder):
    folder.write("b.parquet", 100)
    folder.damage("b.parquet")
    with pytest.raises(FatalError) as caught:
        folder.run()
    assert caught.value.found == "bytes that do not follow its format"
    assert caught.value.__cause__ is not None


def test_a_skipped_file_is_a_dead_letter(folder):
    folder.write("b.parquet", 100)
    folder.damage("b.parquet")
    letters = folder.root / "letters"
    policy = RecordPolicy.dead_letter(FileSink(letters))
    folder.run(policy, on_unreadable="skip")
    (letter,) = (row for f in letters.glob("*.parquet") for row in pq.read_table(f).to_pylist())
    assert letter["error_code"] == "FILE_DAMAGED"
    assert "b.parquet" in letter["reason"]


def test_a_limit_of_bad_records_counts_skipped_files(folder):
    folder.write("b.parquet", 100)
    folder.damage("b.parquet")
    with pytest.raises(ConnectorError):
        folder.run(RecordPolicy.skip(max_records=0), on_unreadable="skip")
    assert folder.rows() == [*range(100)]


def test_a_footer_that_cannot_be_decrypted_or_decoded_is_no_temporary_failure(tmp_path):
    pq.write_table(pa.table({"id": [1]}), tmp_path / "a.parquet")
    content = bytearray((tmp_path / "a.parquet").read_bytes())
    content[-40:-8] = b"\xff" * 32
    (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(ConfigurationError, match="not encrypted"):
        FileSource(tmp_path).schema()


def test_a_sample_that_cannot_be_decompressed_is_no_temporary_failure(tmp_path):
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"id": 1}\n')[:-12])
    with pytest.raises(ConfigurationError, match="cannot be read"):
        FileSource(tmp_path).schema()


class Keys(encryption.KmsClient):
    """Wraps no key."""

    def __init__(self, _settings):
        encryption.KmsClient.__init__(self)

    def wrap_key(self, key_bytes, master_key_identifier):
        return base64.b64encode(key_bytes)

    def unwrap_key(self, wrapped_key, master_key_identifier):
        return base64.b64decode(wrapped_key)


def write_encrypted(path):
    """Write a file with a readable footer, a plain column, and an encrypted one."""
    table = pa.table({"id": range(100), "secret": range(100)})
    properties = encryption.CryptoFactory(Keys).file_encryption_properties(
        encryption.KmsConnectionConfig(),
        encryption.EncryptionConfiguration(
            footer_key="f", column_keys={"k": ["secret"]}, plaintext_footer=True
        ),
    )
    with pq.ParquetWriter(path, table.schema, encryption_properties=properties) as writer:
        writer.write_table(table, row_group_size=10)


def test_an_encrypted_column_ends_no_process_and_is_no_temporary_failure(folder):
    write_encrypted(folder.input / "a.parquet")
    source = FileSource(folder.input, split_size=500)
    assert source.schema().names == ["id", "secret"]
    with pytest.raises(FatalError, match="encrypted"):
        rows_of(source)
    pushed, _ = source.apply_filters([Comparison(("secret",), "=", 5)])
    with pytest.raises(FatalError, match="encrypted"):
        rows_of(pushed)


def test_the_plain_columns_of_a_file_with_encrypted_ones_are_read_once(folder):
    write_encrypted(folder.input / "a.parquet")
    source = FileSource(folder.input, split_size=500).apply_projection([("id",)])
    assert rows_of(source) == [{"id": number} for number in range(100)]
