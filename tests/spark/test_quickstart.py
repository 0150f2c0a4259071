# SPDX-License-Identifier: Apache-2.0
"""Follows the quickstart as a new user: wheels, a new environment, and running servers."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest
from uv import find_uv_bin

from connector_elasticsearch.testing import ElasticsearchServer
from connector_kafka.testing import KafkaBroker
from connector_release_tools.distribution_build import build
from connector_release_tools.environments import Environment, constraints, wheelhouse
from connector_release_tools.programs import output
from connector_release_tools.versions import SparkLine

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
LINE = SparkLine.parse(".".join(pyspark.__version__.split(".")[:2]))
OTHER = {"3.5": "4.3", "4.3": "3.5"}[str(LINE)]
BLOCK = re.compile(r"^```(?:python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass
class Newcomer:
    """A user with Spark and a folder of wheels."""

    folder: Path
    environment: Environment

    def read(self, addresses: dict[str, str]) -> list[str]:
        page = (ROOT / "docs/quickstart.md").read_text(encoding="utf-8")
        blocks = BLOCK.findall(re.sub(r"(==\d+\.\d+\.\d+)\.4\.3", rf"\1.{LINE}", page))
        for shown, used in addresses.items():
            blocks = [block.replace(shown, used) for block in blocks]
        return blocks

    def sh(self, commands: str) -> str:
        # An environment that uv created has uv's pip.
        commands = re.sub(r"^pip ", f"{find_uv_bin()} pip ", commands, flags=re.MULTILINE)
        done = subprocess.run(
            ["bash", "-ec", commands],
            cwd=self.folder,
            env={
                **self.environment.variables(),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "PYSPARK_SUBMIT_ARGS": "--conf spark.ui.enabled=false pyspark-shell",
                "UV_FIND_LINKS": str(wheelhouse()),
                "UV_CONSTRAINT": str(self.folder / "pins.txt"),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{commands}\n{done.stdout[-6000:]}"
        return done.stdout


@pytest.fixture
def newcomer(tmp_path: Path) -> Newcomer:
    environment = Environment.create(tmp_path / "env")
    pins = constraints(ROOT, LINE)
    environment.install(f"pyspark=={pyspark.__version__}", constraints=pins)
    (tmp_path / "pins.txt").write_text("\n".join(pins), encoding="utf-8")
    dist = tmp_path / "dist"
    for package, lines in {
        "connectors-core": [None],
        "connector-kafka": [LINE],
        "connector-elasticsearch": [LINE],
        "connector-filesystem": [LINE, SparkLine.parse(OTHER)],
    }.items():
        for line in lines:
            build(ROOT / package, dist, spark=line, seconds=1_000_000_000)
    return Newcomer(tmp_path, environment)


def test_the_quickstart_works_as_written(newcomer: Newcomer) -> None:
    with KafkaBroker() as broker, ElasticsearchServer() as server:
        broker.topics.create("flights", partitions=2)
        kafka, elasticsearch = broker.bootstrap_servers, server.url
        addresses = {"localhost:9092": kafka, "http://localhost:9200": elasticsearch}
        follow(newcomer, newcomer.read(addresses))


def follow(newcomer: Newcomer, blocks: list[str]) -> None:
    """Follow the page from its first block to its last."""
    version, install, extra, to_kafka, run_to, from_kafka, run_from = blocks
    assert newcomer.sh(version).strip() == pyspark.__version__
    before = newcomer.environment.versions()
    newcomer.sh(install)
    assert newcomer.environment.versions().items() >= before.items()
    (newcomer.folder / "to_kafka.py").write_text(to_kafka, encoding="utf-8")
    (newcomer.folder / "from_kafka.py").write_text(from_kafka, encoding="utf-8")
    newcomer.sh(run_to)
    prepare = run_to.splitlines()[0]
    for _ in range(2):
        said = newcomer.sh(f"{prepare}\n{run_from}")
        assert "2 late flights" in said.splitlines()
    newcomer.sh(extra)
    assert newcomer.environment.versions()["pyspark"] == pyspark.__version__


def test_the_build_for_another_spark_names_the_command_that_installs_the_right_one(
    newcomer: Newcomer,
) -> None:
    (wheel,) = (newcomer.folder / "dist").glob(f"connector_filesystem-*.{OTHER}-*.whl")
    newcomer.sh(f"pip install --find-links dist {wheel}")
    assert newcomer.environment.versions()["pyspark"] == pyspark.__version__
    said = newcomer.sh("! python -c 'import connector_filesystem' 2>&1")
    (command,) = re.findall(r"hint: run: uv (.*)", said)
    env = {**newcomer.environment.variables(), "UV_CONSTRAINT": str(newcomer.folder / "pins.txt")}
    output(("bash", "-c", f"{find_uv_bin()} {command}"), folder=newcomer.folder, env=env)
    newcomer.sh("python -c 'import connector_filesystem'")
    assert newcomer.environment.versions()["pyspark"] == pyspark.__version__
