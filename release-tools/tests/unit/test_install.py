# SPDX-License-Identifier: Apache-2.0
"""A release is installed by name, and the installed Spark does not change."""

import sys
import venv
import zipfile
from pathlib import Path

import pytest
from cell_tree import pyspark
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from connector_release_tools.cli import app
from connector_release_tools.environments import Environment
from connector_release_tools.errors import InstallError, VersionError
from connector_release_tools.installation.installation_plan import (
    Installation,
    Installer,
    Request,
    Target,
    confirm,
    plan,
)
from connector_release_tools.versions import Release, SparkLine, Version

numbers = st.integers(0, 99)
versions = st.builds(Version, numbers, numbers, numbers)
spark_lines = st.builds(SparkLine, numbers, numbers)
names = st.from_regex(r"connector-[a-z0-9]{1,9}", fullmatch=True)


@given(names, versions, st.none() | spark_lines)
def test_the_requested_release_is_parsed_from_its_name(name, version, spark_line):
    suffix = "" if spark_line is None else f"-{spark_line}"
    assert Request.parse(f"{name}=={version}{suffix}") == Request(name, version, spark_line)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("connector-kafka==3.1.2-35", "write 3.1.2-3.5"),
        ("connector-kafka==3.1.2+3.5", "write 3.1.2-3.5"),
        ("connector-kafka==3.1.2.3.5", "write 3.1.2-3.5"),
        ("connector-kafka>=3.1.2", "write NAME==VERSION-SPARK, as in connector-kafka==3.1.2-3.5"),
        ("--pre==3.1.2", "write NAME==VERSION-SPARK, as in connector-kafka==3.1.2-3.5"),
        ("==3.1.2", "write NAME==VERSION-SPARK, as in connector-kafka==3.1.2-3.5"),
    ],
)
def test_another_spelling_is_refused_with_the_correct_one(text, hint):
    with pytest.raises(VersionError) as caught:
        Request.parse(text)
    assert caught.value.hint == hint


def target(spark: str | None = "3.5.9", *, packaged: bool = True) -> Target:
    return Target(Path("/env/bin/python"), spark, packaged, None)


def planned(text: str, into: Target, **options: object) -> Installation:
    return plan(Request.parse(text), into, installer=Installer.PIP, **options)


@given(names, versions, spark_lines, numbers)
def test_the_command_pins_the_installed_spark(name, version, spark_line, patch):
    pyspark = f"{spark_line}.{patch}"
    made = planned(f"{name}=={version}", target(pyspark))
    assert made.release == Release.parse(f"{name}=={version}-{spark_line}")
    assert made.command[-2:] == (f"{name}=={version}.{spark_line}", f"pyspark=={pyspark}")


def test_without_an_installed_spark_the_command_installs_the_line_of_the_release():
    made = planned("connector-kafka==3.1.2-3.5", target(None, packaged=False))
    assert made.command[-2:] == ("connector-kafka==3.1.2.3.5", "pyspark==3.5.*")


@pytest.mark.parametrize(
    ("text", "into", "message", "hint"),
    [
        (
            "connector-kafka==3.1.2-3.5",
            target("4.3.0"),
            "connector-kafka 3.1.2-3.5 is for Spark 3.5; /env/bin/python has pyspark 4.3.0",
            "install 'connector-kafka==3.1.2-4.3'",
        ),
        (
            "connector-kafka==3.1.2",
            target(None, packaged=False),
            "/env/bin/python has no pyspark, so the Spark line of connector-kafka 3.1.2 is unknown",
            "add the Spark line: 'connector-kafka==3.1.2-3.5'",
        ),
        (
            "connector-kafka==3.1.2-3.5",
            target("3.5.2", packaged=False),
            "pyspark 3.5.2 of /env/bin/python is unknown to installers",
            "use --no-deps",
        ),
    ],
)
def test_an_incompatible_request_is_refused_in_one_sentence(text, into, message, hint):
    with pytest.raises(InstallError) as caught:
        planned(text, into)
    assert message in str(caught.value)
    assert hint in caught.value.hint


def test_with_the_spark_of_a_platform_only_the_connector_is_installed():
    made = planned("connector-kafka==3.1.2", target("3.5.2", packaged=False), no_deps=True)
    assert made.command[-2:] == ("--no-deps", "connector-kafka==3.1.2.3.5")


@pytest.mark.parametrize("installer", Installer)
@pytest.mark.parametrize("option", ["index_url", "extra_index_url"])
def test_the_password_of_an_index_is_neither_printed_nor_an_argument(
    installer: Installer, option: str
):
    url = "https://me:canary@index.example/simple"
    made = plan(
        Request.parse("connector-kafka==3.1.2"), target(), installer=installer, **{option: url}
    )
    assert list(made.env.values()) == [url]
    assert "canary" not in f"{made}{made.command}"
    assert str(made).endswith(f"--{option.replace('_', '-')} https://index.example/simple")


def test_an_additional_index_leaves_the_default_one():
    request = Request.parse("connector-kafka==3.1.2")
    for installer, variable in {
        Installer.UV: "UV_INDEX",
        Installer.PIP: "PIP_EXTRA_INDEX_URL",
    }.items():
        made = plan(
            request, target(), installer=installer, extra_index_url="http://localhost:1/simple"
        )
        assert made.env == {variable: "http://localhost:1/simple"}


def test_a_replaced_spark_is_an_error():
    release = Release.parse("connector-kafka==3.1.2-3.5")
    after = Target(Path("/env/bin/python"), "3.5.8", True, "3.1.2.3.5")
    with pytest.raises(InstallError, match=r"the installation changed pyspark 3\.5\.9 to 3\.5\.8"):
        confirm(release, before=target(), after=after)


# --- Real environments ----------------------------------------------------------------------------


def connector(folder: Path, spark_line: str) -> None:
    """Create a wheel of connector-one 2.0.0 for a Spark line."""
    info = f"connector_one-2.0.0.{spark_line}.dist-info"
    metadata = (
        f"Metadata-Version: 2.1\nName: connector-one\nVersion: 2.0.0.{spark_line}\n"
        f"Requires-Dist: pyspark=={spark_line}.*\n"
    )
    name = f"connector_one-2.0.0.{spark_line}-py3-none-any.whl"
    with zipfile.ZipFile(folder / name, "w") as wheel:
        wheel.writestr(f"{info}/METADATA", metadata)
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any"
        )
        wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Both builds of a connector, and newer Spark releases than the installed one."""
    folder = tmp_path / "wheels"
    for version in ("3.5.8", "3.5.9", "4.3.0"):
        pyspark(folder, version)
    for spark_line in ("3.5", "4.3"):
        connector(folder, spark_line)
    for variable in ("UV_OFFLINE", "PIP_NO_INDEX"):
        monkeypatch.setenv(variable, "1")
    return folder


def run(name: str, *arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["install", name, *map(str, arguments)])


def test_uv_keeps_the_installed_spark_and_chooses_its_build(tmp_path: Path, wheels: Path):
    environment = Environment.create(tmp_path / "environment")
    environment.install("pyspark==3.5.8", find_links=[wheels])
    into = ("--python", environment.python, "--find-links", wheels)
    assert "would run: " in run("connector-one==2.0.0", *into, "--dry-run").output
    assert environment.versions() == {"pyspark": "3.5.8"}

    done = run("connector-one==2.0.0", *into)
    assert done.exit_code == 0, done.output
    assert (
        "the package requirement for connector-one 2.0.0-3.5 is connector-one==2.0.0.3.5"
        in done.output
    )
    assert environment.versions() == {"connector-one": "2.0.0.3.5", "pyspark": "3.5.8"}

    refused = run("connector-one==2.0.0-4.3", *into)
    assert refused.exit_code == 2
    assert "connector-one 2.0.0-4.3 is for Spark 4.3; " in refused.output
    assert environment.versions() == {"connector-one": "2.0.0.3.5", "pyspark": "3.5.8"}


@pytest.mark.slow  # creating an environment with pip is slow
def test_pip_keeps_the_installed_spark_and_chooses_its_build(tmp_path: Path, wheels: Path):
    folder = tmp_path / "environment"
    venv.create(folder, with_pip=True, symlinks=True)
    environment = Environment(folder)
    environment.install("pyspark==3.5.8", find_links=[wheels])
    into = ("--python", environment.python, "--find-links", wheels, "--installer", "pip")
    done = run("connector-one==2.0.0-3.5", *into)
    assert done.exit_code == 0, done.output
    found = environment.versions()
    assert (found["connector-one"], found["pyspark"]) == ("2.0.0.3.5", "3.5.8")


def test_a_spark_without_metadata_is_found(tmp_path: Path, wheels: Path):
    environment = Environment.create(tmp_path / "environment")
    place = environment.folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    package = place / "site-packages" / "pyspark"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('__version__ = "4.3.0"\n')
    into = ("--python", environment.python, "--find-links", wheels)
    assert "pyspark 4.3.0 of " in run("connector-one==2.0.0", *into).output
    done = run("connector-one==2.0.0", *into, "--no-deps")
    assert done.exit_code == 0, done.output
    assert environment.versions() == {"connector-one": "2.0.0.4.3"}
