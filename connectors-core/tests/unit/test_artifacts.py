# SPDX-License-Identifier: Apache-2.0
"""Tests pinned files: a folder with the exact files works, and any other fails."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from connectors_core.errors import ConfigurationError
from connectors_core.testing.servers import Artifact, PinnedArtifacts, find_java

VARIABLE = "CONNECTORS_TEST_FILES"
DIGEST = hashlib.sha256(b"content").hexdigest()


@pytest.fixture
def pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PinnedArtifacts:
    """A list of one jar, for a folder that a test fills."""
    (tmp_path / "list.txt").write_text(f"# a comment\norg.example:one:1.0 sha256:{DIGEST}\n")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    return PinnedArtifacts.read(tmp_path / "list.txt", folder_variable=VARIABLE)


def test_a_matching_file_in_the_configured_folder_is_used(
    pinned: PinnedArtifacts, tmp_path: Path
) -> None:
    (tmp_path / "one-1.0.jar").write_bytes(b"content")
    assert pinned.name == "list"
    assert pinned.paths() == [tmp_path / "one-1.0.jar"]


@pytest.mark.parametrize("content", [b"other", b"", None])
def test_a_file_that_differs_from_the_pinned_one_is_refused(
    pinned: PinnedArtifacts, tmp_path: Path, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "one-1.0.jar").write_bytes(content)
    with pytest.raises(ConfigurationError) as error:
        pinned.paths()
    assert error.value.option == VARIABLE
    assert "one-1.0.jar" in str(error.value)


def test_a_line_can_name_an_extension_other_than_jar() -> None:
    found = Artifact.parse(f"org.example:one:1.0@zip sha256:{DIGEST}\n")
    assert found == Artifact("org.example", "one", "1.0", DIGEST, extension="zip")
    assert found.file_name == "one-1.0.zip"


def test_pyspark_is_found_without_an_import() -> None:
    program = (
        "import sys; from connectors_core.testing.servers import artifacts; "
        "assert artifacts._ivy().exists(); assert 'pyspark' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_recent_java_is_found_next_to_an_older_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = find_java()
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert find_java(11) == str(old)
    with pytest.raises(ConfigurationError, match="Java 99 or newer") as error:
        find_java(99)
    assert f"{old}" in str(error.value)
    monkeypatch.setenv("JAVA_HOME", os.path.dirname(os.path.dirname(java)))
    assert find_java() == java
