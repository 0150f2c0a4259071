# SPDX-License-Identifier: Apache-2.0
"""Tests that the commands of docs/deploy.md deploy a pipeline to a cluster, on both Spark lines."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pyspark
import pytest

from connectors_core.testing import running_cluster

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINE = ".".join(pyspark.__version__.split(".")[:2])
# Variables that must not leak from the environment of the tests.
FOREIGN = ("PYSPARK", "PYTEST", "PYTHON", "SPARK", "VIRTUAL_ENV")


def blocks(language: str) -> list[str]:
    """Return the blocks of the page for the Spark line of this environment."""
    text = (ROOT / "docs/deploy.md").read_text(encoding="utf-8")
    text = text.replace("spark43", f"spark{LINE.replace('.', '')}").replace("4.3", LINE)
    return [code for found, code in BLOCK.findall(text) if found == language]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_packed_environment_runs_on_a_cluster(tmp_path: Path) -> None:
    build, submit, *_ = blocks("sh")
    (program,) = blocks("python")
    folder = tmp_path / "deploy"
    build = build.replace("../../", f"{ROOT}/").replace("build/deploy", str(folder))
    wheelhouse = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    env = {name: it for name, it in os.environ.items() if not name.startswith(FOREIGN)}
    env |= {"UV_FIND_LINKS": f"{wheelhouse}/connectors/wheelhouse", "UV_PYTHON_DOWNLOADS": "never"}
    run(f"cd {ROOT}\n{build}", env)

    (folder / "late.py").write_text(program, encoding="utf-8")
    (folder / "in").mkdir()
    (folder / "in/1.csv").write_text("flight,origin,delay\nUA1545,EWR,2\nAA1141,JFK,-4\n")
    settings = folder / "conf"
    settings.mkdir()
    (settings / "spark-defaults.conf").write_text(
        "spark.executor.memory 600m\nspark.ui.enabled false\nspark.driver.host 127.0.0.1\n"
    )
    with running_cluster(tmp_path) as cluster:
        run(
            f"cd {folder}\n{submit}",
            env
            | {
                "DATA": str(folder),
                "MASTER": cluster.url,
                "SPARK_CONF_DIR": str(settings),
                "SPARK_HOME": str(Path(pyspark.__file__).parent),
                "SPARK_LOCAL_IP": "127.0.0.1",
            },
        )
    assert pq.read_table(folder / "out").column("flight").to_pylist() == ["UA1545"]


def run(script: str, env: dict[str, str]) -> None:
    done = subprocess.run(
        ["bash", "-e", "-c", script],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]
