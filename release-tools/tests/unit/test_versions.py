# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement
from packaging.version import Version as PackageVersion

from connector_release_tools.errors import VersionError
from connector_release_tools.versions import Release, ReleaseVersion, SparkLine, Version

numbers = st.integers(0, 10**6)
spark_lines = st.builds(SparkLine, numbers, numbers)
release_versions = st.builds(
    ReleaseVersion, st.builds(Version, numbers, numbers, numbers), spark_lines
)
names = st.from_regex(r"connector-[a-z0-9]{1,9}(-[a-z0-9]{1,9}){0,2}", fullmatch=True)


@given(release_versions)
def test_a_release_name_and_its_package_version_parse_to_the_same_version(version):
    assert ReleaseVersion.parse(str(version)) == version
    assert ReleaseVersion.of_package(version.package_version) == version


@given(release_versions)
def test_a_package_version_is_already_normalized(version):
    assert str(PackageVersion(version.package_version)) == version.package_version


@given(release_versions, release_versions)
def test_releases_are_ordered_as_installers_order_them(one, other):
    packages = PackageVersion(one.package_version) < PackageVersion(other.package_version)
    assert (one < other) == packages


@given(names, release_versions)
def test_a_release_is_parsed_from_each_of_its_spellings(name, version):
    release = Release(name, version)
    assert Release.parse(str(release)) == release
    assert Release.parse(f"{name}=={version}") == release
    requirement = Requirement(release.requirement)
    assert (requirement.name, str(requirement.specifier)) == (name, f"=={version.package_version}")


@given(spark_lines, numbers)
def test_the_requirement_of_a_spark_line_accepts_only_its_releases(spark_line, patch):
    taken = Requirement(spark_line.requirement).specifier
    assert f"{spark_line}.{patch}" in taken
    assert f"{spark_line.major}.{spark_line.minor + 1}.{patch}" not in taken
    assert f"{spark_line.major + 1}.{spark_line.minor}.{patch}" not in taken


@given(st.text(max_size=12))
def test_parsed_versions_survive_a_round_trip(text):
    for parse in (Version.parse, SparkLine.parse, ReleaseVersion.parse):
        try:
            parsed = parse(text)
        except VersionError as error:
            assert error.hint.startswith("write ")  # noqa: PT017
        else:
            assert str(parsed) == text


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("3.1.2-35", "3.1.2-3.5"),
        ("3.1.2+3.5", "3.1.2-3.5"),
        ("3.1-3.5", "3.1.0-3.5"),
        ("3.1.2.3.5", "3.1.2-3.5"),
        ("v3.1.2-3.5", "3.1.2-3.5"),
        ("3.1.2-spark3.5", "3.1.2-3.5"),
        ("3.1.2_3.5", "3.1.2-3.5"),
        ("03.1.2-3.5", "3.1.2-3.5"),
    ],
)
def test_a_misspelling_is_refused_with_the_correct_spelling(written, meant):
    with pytest.raises(VersionError) as caught:
        ReleaseVersion.parse(written)
    assert (str(caught.value), caught.value.hint) == (
        f"{written!r} is not a release name",
        f"write {meant}",
    )


@pytest.mark.parametrize(
    "written", ["", "3.1.2", "3.5", "newest", "3.1.2-", "3.1.2-3.5.9", "٣.1.2-3.5"]
)
def test_an_invalid_release_name_is_refused_with_an_example(written):
    with pytest.raises(VersionError) as caught:
        ReleaseVersion.parse(written)
    assert caught.value.hint == "write MAJOR.MINOR.PATCH-SPARK, as in 3.1.2-3.5"


@pytest.mark.parametrize(
    "written", ["connector-kafka", "connector-kafka==", "==3.1.2-3.5", "a b c"]
)
def test_an_invalid_version_is_refused(written):
    with pytest.raises(VersionError):
        Release.parse(written)
