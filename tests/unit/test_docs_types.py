# SPDX-License-Identifier: Apache-2.0
"""Checks the Python code of the documents with mypy and pyright, including types of keywords."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from document_modules import write_modules

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
_spec = importlib.util.spec_from_file_location("docs", ROOT / "tools/docs.py")
docs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(docs)

# Checked together, because mypy and pyright start slowly.
CONSTRUCTORS = Path(__file__).with_name("typed_constructors.py")
# The guide copies this file into the connector that it writes.
SERVER, COPY = ROOT / "docs/write-a-connector/server.py", "src/connector_shops/testing.py"
# Not installed in the environments of the tests.
MISSING = ("opentelemetry.exporter.*", "prometheus_client.*")
PATHS = [str(path) for path in [*sorted(ROOT.glob("*/src")), ROOT / "tests"]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("modules")


@pytest.fixture(scope="module")
def modules(folder: Path) -> dict[str, str]:
    """Return the documents by the paths of the files of their blocks."""
    found = write_modules(ROOT, docs.documents(), folder)
    assert {"README.md", "docs/formats.md", "connector-kafka/README.md"} <= set(found.values())
    shutil.copy(SERVER, folder / COPY)
    shutil.copy(CONSTRUCTORS, folder)
    return {**found, COPY: SERVER.name, CONSTRUCTORS.name: CONSTRUCTORS.name}


def test_mypy_accepts_the_code_of_the_documents_and_only_correct_keywords(
    modules: dict[str, str], folder: Path
) -> None:
    config = folder / "mypy.ini"
    sections = {
        "mypy": ("python_version = 3.11", "strict = True", f"mypy_path = src:{':'.join(PATHS)}"),
        **{f"mypy-{name}": ("ignore_missing_imports = True",) for name in MISSING},
        "mypy-document_context,document_service,kafka.*,pyarrow.*,fsspec.*,cloudpickle.*": (
            "ignore_missing_imports = True",
            "follow_imports = silent",
            "ignore_errors = True",
        ),
    }
    text = "".join(f"[{name}]\n" + "\n".join(lines) + "\n" for name, lines in sections.items())
    config.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [
            BIN / "mypy",
            "--config-file",
            config,
            "--cache-dir",
            ROOT / "build/mypy",
            *sorted(modules),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_pyright_accepts_the_code_of_the_documents_and_only_correct_keywords(
    modules: dict[str, str], folder: Path
) -> None:
    settings = {
        "typeCheckingMode": "standard",
        "pythonVersion": "3.11",
        "extraPaths": ["src", *PATHS],
        "include": sorted(modules),
        "reportMissingModuleSource": False,
        "enableTypeIgnoreComments": False,
        "reportUnnecessaryTypeIgnoreComment": "error",
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    done = subprocess.run(
        [BIN / "basedpyright", "--pythonpath", sys.executable, "--outputjson", "-p", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(done.stdout)["generalDiagnostics"]
    known = [
        each
        for each in found
        if not any(name.removesuffix(".*") in each["message"] for name in MISSING)
    ]
    said = [
        f"{modules[Path(each['file']).relative_to(folder).as_posix()]}:"
        f"{each['range']['start']['line'] + 1}: {each['message']}"
        for each in known
    ]
    assert said == []
