# SPDX-License-Identifier: Apache-2.0
"""Tests the command line of `connectors sql`, up to the start of Spark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from connectors_core.cli import app
from connectors_core.cli.sql import running
from connectors_core.cli.sql.formats import Format
from connectors_core.cli.sql.session import ScriptFailedError
from connectors_core.errors import MissingDependencyError


def run(*arguments: object, stdin: str | None = None) -> Any:
    return CliRunner().invoke(app, ["sql", *map(str, arguments)], input=stdin)


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[running.ShellSettings]:
    """Collects the settings of the shell instead of running it."""
    found: list[running.ShellSettings] = []
    monkeypatch.setattr(running, "run_shell", found.append)
    return found


def test_the_help_of_all_commands_imports_neither_spark_nor_the_prompt() -> None:
    program = (
        "import sys; from connectors_core.cli import app\n"
        "try: app(['--help'])\n"
        "finally: print({'pyspark', 'prompt_toolkit', 'sqlglot'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert " sql " in done.stdout
    assert done.stdout.endswith("set()\n")


def test_statements_come_from_an_argument_a_file_or_standard_input(
    given: list[running.ShellSettings], tmp_path: Path
) -> None:
    file = tmp_path / "x.sql"
    file.write_text("SELECT 2")
    for arguments in (["-e", "SELECT 1"], ["-f", file], [], ["-f", "-", "-i", file]):
        assert run(*arguments, stdin="SELECT 3").exit_code == 0
    scripts = [(each.script and (each.script.text, each.script.name)) for each in given]
    assert scripts == [
        ("SELECT 1", None),
        ("SELECT 2", str(file)),
        ("SELECT 3", "<stdin>"),
        ("SELECT 3", "<stdin>"),
    ]
    assert [each.init and each.init.text for each in given] == [None, None, None, "SELECT 2"]


def test_a_byte_order_mark_is_no_part_of_a_statement(
    given: list[running.ShellSettings], tmp_path: Path
) -> None:
    file = tmp_path / "x.sql"
    file.write_text("SELECT 2", encoding="utf-8-sig")
    run("-f", file)
    run(stdin="\ufeffSELECT 2")
    assert [each.script and each.script.text for each in given] == ["SELECT 2"] * 2


def test_options_reach_spark_and_the_environment(
    given: list[running.ShellSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    run("--spark-conf", "spark.a=b=c", "--spark-conf", "spark.secret=hunter2")
    run("--checkpoint-location", "s3a://b", "--state-location", "s3://b", "--storage-option", "a=1")
    first, second = given
    assert first.spark_conf == {
        "spark.a": "b=c",
        "spark.secret": "hunter2",  # pragma: allowlist secret
    }
    assert first.environment["checkpoint_location"] == Path("/state/connectors/checkpoints")
    assert "hunter2" not in repr(first)
    assert second.environment == {
        "checkpoint_location": "s3a://b",
        "state_location": "s3://b",
        "storage_options": {"a": 1},
    }


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["-e", "SELECT 1", "-f", "x.sql"], "exclude each other"),
        (["-f", "missing.sql"], "the file missing.sql cannot be read"),
        (["--spark-conf", "spark.a"], "--spark-conf KEY=VALUE"),
        (["--format", "xml"], "xml"),
    ],
)
def test_wrong_arguments_are_refused(arguments: list[str], shown: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert shown in result.stderr


def test_a_failed_script_and_ctrl_c_have_their_exit_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    for error, code in ((ScriptFailedError("no"), 2), (KeyboardInterrupt(), 130)):

        def fail(_: running.ShellSettings, error: BaseException = error) -> None:
            raise error

        monkeypatch.setattr(running, "run_shell", fail)
        result = run("-e", "SELECT 1")
        assert (result.exit_code, result.stderr) == (code, "")


def test_a_prompt_without_its_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "find_spec", lambda _: None)
    settings = running.ShellSettings(
        init=None, script=None, format=Format.TABLE, max_rows=None, spark_conf={}, environment={}
    )
    with pytest.raises(MissingDependencyError, match=r"connectors-core\[sql\]"):
        running.run_shell(settings)


PROGRAM = """
from simulated_sql_engine import SimulatedEngine
from connectors_core.cli import app
from connectors_core.cli.sql import running

class Telling(SimulatedEngine):
    def close(self):
        print("closed")

running._opened = lambda settings: Telling()
app(["sql", "-e", "START one running; SELECT 1"])
"""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_stops_the_jobs_for_which_a_script_waits(number: int, status: int) -> None:
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    with subprocess.Popen(
        [sys.executable, "-u", "-c", PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as program:
        try:
            assert program.stdout is not None
            assert [program.stdout.readline() for _ in range(4)][-1] == "(1 row)\n"
            program.send_signal(number)
            out, err = program.communicate(timeout=60)
        finally:
            program.kill()
    assert (program.returncode, out) == (status, "closed\n"), err
    assert "Traceback" not in err
