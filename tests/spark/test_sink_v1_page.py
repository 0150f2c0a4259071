# SPDX-License-Identifier: Apache-2.0
"""Runs the pipelines of docs/migrate/sink-v1.md: with the first sink, and with its replacement."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq
import pytest
from page_modules import modules_of
from pyspark import cloudpickle

DOCUMENT = Path(__file__).parents[2] / "docs/migrate/sink-v1.md"
CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

for module in modules_of("migrate/sink-v1.md").values():
    cast(Any, cloudpickle).register_pickle_by_value(module)  # executors cannot import it


@pytest.mark.filterwarnings("ignore::connectors_core.ConnectorDeprecationWarning")
@pytest.mark.usefixtures("spark")
@pytest.mark.line("4.3")
def test_the_replacement_continues_where_the_first_sink_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    blocks = CODE.findall(DOCUMENT.read_text(encoding="utf-8"))
    variables: dict[str, Any] = {}
    for runs, code in enumerate((each for each in blocks if "with Pipeline(" in each), 1):
        exec(compile(code, DOCUMENT.name, "exec", dont_inherit=True), variables)
        parts = variables["folder"] / "parts"
        files = sorted(parts.glob("*.parquet"))
        values = Counter(n for file in files for n in pq.read_table(file)["value"].to_pylist())
        assert values == dict.fromkeys(range(1000), runs)
        assert (parts / "_manifest").read_text().split() == [file.name for file in files]
        writers = {file.stem.partition("-")[0] for file in files}
        names = [f"{writer}-{number:06d}.parquet" for writer in writers for number in range(runs)]
        assert [file.name for file in files] == sorted(names)
    assert runs == 2
