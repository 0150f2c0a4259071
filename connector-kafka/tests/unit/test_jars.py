# SPDX-License-Identifier: Apache-2.0
"""Jars: from a folder as they are pinned, or not at all."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from connector_kafka.testing import jars
from connectors_core.errors import ConfigurationError

NAMES = ["kafka-3.9.2", "kafka-4.3.1", "spark-sql-kafka-0-10_2.12-3.5.7"]


@pytest.fixture
def pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A list of one jar, and the folder of it."""
    lists = tmp_path / "pinned"
    lists.mkdir()
    digest = hashlib.sha256(b"content").hexdigest()
    (lists / "one-1.0.txt").write_text(f"# a comment\norg.example:one:1.0 sha256:{digest}\n")
    monkeypatch.setattr(jars, "_PINNED", lists)
    monkeypatch.setenv(jars.FOLDER_VARIABLE, str(tmp_path))
    return tmp_path / "one-1.0.jar"


def test_a_jar_of_the_named_folder_is_taken_as_it_is(pinned: Path) -> None:
    pinned.write_bytes(b"content")
    assert jars.class_path("one-1.0") == str(pinned)


@pytest.mark.parametrize("content", [b"other", b"", None])
def test_a_jar_that_is_not_the_pinned_one_is_refused(pinned: Path, content: bytes | None) -> None:
    if content is not None:
        pinned.write_bytes(content)
    with pytest.raises(ConfigurationError) as error:
        jars.class_path("one-1.0")
    assert error.value.option == jars.FOLDER_VARIABLE
    assert "one-1.0.jar" in str(error.value)


def test_an_unknown_list_names_those_there_are() -> None:
    with pytest.raises(ConfigurationError, match=r"kafka-3\.9\.2.*kafka-4\.3\.1"):
        jars.class_path("kafka-1.0.0")


@pytest.mark.parametrize("name", NAMES)
def test_every_jar_is_pinned_once_by_a_digest(name: str) -> None:
    found = jars.pinned_jars(name)
    assert {len(jar.sha256) for jar in found} == {64}
    assert len({jar.file_name for jar in found}) == len(found)


def test_pyspark_is_found_and_not_imported() -> None:
    program = (
        "import sys; from connector_kafka.testing import jars; "
        "assert jars._ivy().exists(); assert 'pyspark' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
