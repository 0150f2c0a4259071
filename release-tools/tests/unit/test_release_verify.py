# SPDX-License-Identifier: Apache-2.0
import dataclasses

import pytest
from release_tree import CONNECTOR, make_wheel

from connector_release_tools.distributions import Distribution
from connector_release_tools.errors import ReleaseError
from connector_release_tools.releases.inspection import inspect, secrets, twine_check
from connector_release_tools.releases.installation import allowed_licences, install
from connector_release_tools.releases.record import Record
from connector_release_tools.versions import SparkLine

SPARK_LINE = SparkLine(3, 5)
VERSION = "2.0.0.3.5"
GOOD = (
    "Requires-Python: >=3.11",
    "Requires-Dist: pyspark<3.6,>=3.5; extra == 'spark'",
    "Requires-Dist: connectors-core<2,>=1.0",
    "License-Expression: Apache-2.0",
    "License-File: LICENSE",
)
LICENCE = {f"connector_one-{VERSION}.dist-info/licenses/LICENSE": "A licence."}


@pytest.fixture(scope="module")
def candidate(first_release_tree):
    return first_release_tree.candidate()


def wheel(folder, *metadata, **files):
    return Distribution.of(make_wheel(folder, CONNECTOR, VERSION, *metadata, **files))


def found(wheel, candidate):
    return [
        each.what for each in inspect(wheel, candidate, spark_line=SPARK_LINE, pythons={"3.11"})
    ]


def test_a_release_is_verified_and_recorded(built_tree, wheelhouse_only):
    said = built_tree.run("verify", CONNECTOR).output
    assert "connector-one-2.0.0 is verified for commit" in said
    record = Record.read(built_tree.root / "build/releases/connector-one-2.0.0.yaml")
    candidate = built_tree.candidate()
    assert (record.commit, record.tree) == (candidate.commit, candidate.tree)
    assert (record.core, record.released) == (">=1.0,<2", None)
    assert set(record.artefacts) == {each.name for each in built_tree.dist.iterdir()}


def test_a_faulty_release_is_reported_and_is_no_longer_verified(release_tree, tmp_path):
    release_tree.verified()  # written by hand, not built from the commit
    release_tree.fragment("+late.bugfix.md")
    sdist, wheel = (
        release_tree.dist / name for name in release_tree.candidate().file_names(SPARK_LINE)
    )
    sdist.unlink()
    said = release_tree.run("verify", CONNECTOR, exit_code=1).output
    assert "fragments are not in CHANGELOG.md: +late.bugfix.md" in said
    assert f"{sdist.name} is not in {release_tree.dist}" in said
    assert f"{wheel.name} has sha256" in said
    assert ", but a build of the commit has" in said
    said = release_tree.error("stage", "connector-one-2.0.0", str(tmp_path / "staging"))
    assert "connector-one-2.0.0 was not verified here" in said


def test_a_valid_artifact_has_no_findings(tmp_path, candidate):
    assert found(wheel(tmp_path, *GOOD, **LICENCE), candidate) == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (GOOD[0], "Requires-Python: >=3.12", "requires Python >=3.12, but the matrix has 3.11"),
        (GOOD[0], None, "requires Python None, but the matrix has 3.11"),
        (
            GOOD[1],
            GOOD[1].replace("<3.6,", ""),
            "its extra spark requires pyspark >=3.5, not <3.6,>=3.5",
        ),
        (GOOD[1], None, "its extra spark requires pyspark not at all, not <3.6,>=3.5"),
        (GOOD[2], None, "requires connectors-core not at all, not <2,>=1.0"),
        (GOOD[3], None, "has no license"),
        (GOOD[4], None, "has no license file"),
        (GOOD[4], "License-File: LICENSE.md", "declares the license file LICENSE.md, but does not"),
        (GOOD[3], "Unheard-Of: yes", "has unknown metadata fields: unheard-of"),
    ],
)
def test_invalid_metadata_is_reported(tmp_path, candidate, old, new, message):
    metadata = [new if each == old else each for each in GOOD]
    (said,) = found(wheel(tmp_path, *filter(None, metadata), **LICENCE), candidate)
    assert said.startswith(f"connector_one-{VERSION}-py3-none-any.whl")
    assert message in said


def test_a_release_that_would_replace_the_spark_of_a_platform_is_reported(tmp_path, candidate):
    itself = wheel(tmp_path, *GOOD, "Requires-Dist: pyspark<3.6,>=3.5", **LICENCE)
    (said,) = found(itself, candidate)
    assert said.endswith(
        "requires pyspark without an extra, so it may replace the platform's Spark"
    )


def test_a_fix_of_a_major_that_installs_spark_may_install_it(tmp_path, candidate):
    metadata = [each.partition(";")[0] for each in GOOD]
    old = wheel(tmp_path, *metadata, **LICENCE)
    assert inspect(old, candidate, spark_line=SPARK_LINE, pythons={"3.11"}, brings_spark=True) == []


def test_an_artifact_of_another_version_is_reported(tmp_path, candidate):
    other = dataclasses.replace(candidate, version=dataclasses.replace(candidate.version, patch=1))
    (said,) = found(wheel(tmp_path, *GOOD, **LICENCE), other)
    assert "it is connector-one 2.0.0.3.5, not connector-one 2.0.1.3.5" in said


def test_a_secret_is_reported_by_its_location_only(tmp_path):
    secret = "AKIA" + "ABCDEFGHIJKLMNOP"  # split, so that the secret check does not find it here
    text = f"# words\nkey = '{secret}'\n"
    held = wheel(tmp_path, *GOOD, **{"connector_one/keys.py": text})
    copy = wheel(tmp_path / "copy", *GOOD, **{"connector_one/keys.py": text})
    said = secrets([held, copy])
    assert {each.what for each in said} == {
        f"connector_one-{VERSION}-py3-none-any.whl: connector_one/keys.py:2 looks like a secret "
        "(AWS Access Key)"
    }
    assert secret not in repr(said)


def test_a_value_marked_as_harmless_is_not_a_secret(tmp_path):
    text = f"key = '{'AKIA' + 'ABCDEFGHIJKLMNOP'}'  # pragma: allowlist secret\n"
    assert secrets([wheel(tmp_path, *GOOD, **{"connector_one/keys.py": text})]) == []


def test_a_description_that_does_not_render_is_reported(tmp_path):
    description = "Description-Content-Type: text/x-rst\n\n.. nothing::\n\n|"
    (said,) = twine_check([wheel(tmp_path, *GOOD, description)])
    assert "long_description" in said.what


def installed(tmp_path, *metadata, licences=("Apache-2.0",), **files):
    return [
        each.what
        for each in install(
            wheel(tmp_path, "Provides-Extra: spark", GOOD[1], *metadata, **files).path,
            "connector_one",
            spark_line=SPARK_LINE, constraints=["pyspark==3.5.9"], find_links=[], licences=licences,
        )
    ]  # fmt: skip


def test_a_forbidden_license_is_reported(tmp_path, wheelhouse_only):
    said = installed(tmp_path, "Requires-Dist: copyleft", GOOD[3])
    assert said == [
        f"connector_one-{VERSION}-py3-none-any.whl installs copyleft 1.0 with the license "
        "'GPL-3.0-only'"
    ]


def test_every_license_of_an_expression_must_be_allowed(tmp_path, wheelhouse_only):
    two = ("Requires-Dist: copyleft", "License-Expression: MIT AND (Zlib OR Apache-2.0)")
    (said,) = installed(tmp_path, *two, licences=["MIT", "Apache-2.0", "GPL-3.0-only"])
    assert "installs connector-one" in said


def test_every_license_of_several_classifiers_must_be_allowed(tmp_path, wheelhouse_only):
    both = [
        f"Classifier: License :: OSI Approved :: {name}"
        for name in ("MIT License", "Apache Software License")
    ]
    copyleft = ("Requires-Dist: copyleft", *both)
    allowed = ["MIT License", "Apache-2.0", "GPL-3.0-only"]
    (said,) = installed(tmp_path, *copyleft, licences=allowed)
    assert "installs connector-one" in said
    assert installed(tmp_path, *copyleft, licences=[*allowed, "Apache Software License"]) == []


def test_a_wheel_that_cannot_be_imported_is_reported(tmp_path, wheelhouse_only):
    broken = {"connector_one/__init__.py": "import nothing_of_this_name\n"}
    (said,) = installed(tmp_path, **broken)
    assert "cannot be used on Spark 3.5" in said
    assert "No module named 'nothing_of_this_name'" in said


def test_a_wheel_with_unavailable_requirements_is_reported(tmp_path, wheelhouse_only):
    (said,) = installed(tmp_path, "Requires-Dist: no-such-package")
    assert "cannot be used on Spark 3.5" in said
    assert "no-such-package" in said


def test_a_tree_without_allowed_licenses_gets_a_hint(tmp_path):
    with pytest.raises(ReleaseError, match="does not list the allowed licenses") as caught:
        allowed_licences(tmp_path)
    assert "[tool.release-tools]" in caught.value.hint
