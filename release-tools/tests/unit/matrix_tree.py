# SPDX-License-Identifier: Apache-2.0
"""A small repository whose files agree with its compatibility matrix."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Self

from click.testing import Result
from git_tree import GitTree, git

from connector_release_tools.git import Repository
from connector_release_tools.matrix.file import MatrixFile, Quoted
from connector_release_tools.matrix.model import CORE
from connector_release_tools.matrix.project import Project
from connector_release_tools.matrix.tested import DIGITS, PAGE, Row, written
from connector_release_tools.releases.candidate import file_names
from connector_release_tools.releases.record import Record
from connector_release_tools.versions import Version

ROOT = Path(__file__).parents[3]
TEMPLATE = "connector-template/connector-{{cookiecutter.name}}"
ONE = "connector-one"
MATRIX = """\
# What works together.
spark:
  "4.3":
    pyspark: "4.3.0"
    python: "3.11"
    java: "17"
    pins: ["pandas<3"]
    works: {spark: ["4.2"], python: ["3.12"]}
  "3.5": # the old one
    pyspark: "3.5.9"
    python: "3.11"
    java: "17"
    pins: ["numpy<2"] # numpy 2 is too new

connectors:
  connector-one:
    majors:
      "2": # on its way
        version: "2.0.0"
        status: features
        spark: ["4.3", "3.5"]
        core: ">=1.0,<2"
        client:
          one-client: ">=7"
        servers:
          one: ["7", "8"]
"""
TOX = (
    "[tox]\nenv_list = lint, types, spark35, spark43\n\n[pkgenv]\nset_env =\n"
    "    spark35: CONNECTOR_SPARK = 3.5\n    types, spark43: CONNECTOR_SPARK = 4.3\n"
)
HATCH_BUILD = """\
# The newest that works.
LIBRARIES = {
    "3.5": ["numpy<2"],
    "4.3": ["pandas<3"],
}
AFTER = 1
"""
PYPROJECT = """\
[project]
name = "NAME"
dynamic = ["dependencies", "version"]
requires-python = ">=3.11"

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

# What it is.
[tool.connector]
version = "2.0.0"
spark = ["3.5", "4.3"] # oldest first
dependencies = ["connectors-core>=1.0,<2", "One_Client>=7"]

[dependency-groups]
test = ["pytest"]
"""
WORKFLOW = """\
on:
  push:
  pull_request:

jobs:
  connector:
    uses: someone/release-tools/.github/workflows/connector.yml@v1
    with:
      connector: connector-one
"""
TABLE = """\
# One

<!-- compatibility, by `release-tools matrix check --fix` -->

| Connector | Gets | Spark 4.3 | Spark 3.5 | Core | Clients | Servers |
| --- | --- | --- | --- | --- | --- | --- |
| connector-one 2 | features; not released yet | 2.0.0-4.3 | 2.0.0-3.5 | >=1.0,<2 | \
one-client >=7 | one 7, 8 |

<!-- end -->
"""
TABLE_IN_RELEASE = TABLE.replace("; not released yet", "")
CORE_PYPROJECT = """\
[project]
name = "connectors-core"
version = "1.4.0"

[project.optional-dependencies]
spark = ["pyspark>=3.5,<4.4"]
"""
RULES = """\
[tool.importlinter]
root_packages = ["connectors_core", "connector_one"]

[[tool.importlinter.contracts]]
name = "layers"
type = "layers"
layers = ["connector_one", "connectors_core"]
"""
WORKFLOWS = [*ROOT.glob(".github/workflows/*"), *ROOT.glob("release-tools/.github/workflows/*")]
FILES: dict[str, str | None] = {
    **{str(path.relative_to(ROOT)): path.read_text("utf-8") for path in WORKFLOWS},
    "compatibility-matrix.yaml": MATRIX,
    "Makefile": "# Oldest first.\nLINES := 35 43\n",
    "README.md": TABLE,
    "pyproject.toml": RULES,
    "requirements/pyspark35.txt": "pyspark==3.5.9 --hash=sha256:1\n",
    "requirements/pyspark43.txt": "pyspark==4.3.0 --hash=sha256:2\n",
    "requirements/spark35.in": "-r base.in\n-r pyspark35.txt\nnumpy<2 # old\npandas\n",
    "requirements/spark43.in": "-r base.in\n-r pyspark43.txt\nnumpy\npandas<3\n",
    "requirements/spark35.txt": (
        "numpy==1.26.4 \\\n    --hash=sha256:3\none-client==7.1\npandas==2.3.0\n"
    ),
    "requirements/spark43.txt": "numpy==2.3.0\none-client==7.1\npandas==2.3.0\n",
    "connectors-core/pyproject.toml": CORE_PYPROJECT,
    "connectors-core/src/connectors_core/compatibility.py": (
        "# What works.\nLINES = {\n"
        '    "3.5": {"spark": ["3.5"], "python": ["3.11"]},\n'
        '    "4.3": {"spark": ["4.3", "4.2"], "python": ["3.11", "3.12"]},\n}\n'
        'LIBRARIES = {\n    "3.5": ["numpy<2"],\n    "4.3": ["pandas<3"],\n}\n'
    ),
    "connectors-core/src/connectors_core/cli/doctor.py": (
        'SPARK_LINES: dict[str, tuple[int, ...]] = {"3.5": (8, 17), "4.3": (17, 21)}\n'
    ),
    f"{TEMPLATE}/hatch_build.py": HATCH_BUILD,
    f"{TEMPLATE}/tox.ini": TOX,
    f"{TEMPLATE}/pyproject.toml": PYPROJECT.replace("NAME", "connector-{{ cookiecutter.name }}"),
    f"{ONE}/hatch_build.py": HATCH_BUILD,
    f"{ONE}/tox.ini": TOX,
    f"{ONE}/pyproject.toml": PYPROJECT.replace("NAME", ONE),
    f"{ONE}/README.md": TABLE_IN_RELEASE,
    f"{ONE}/CHANGELOG.md": "# Changelog\n\n## 2.0.0 (2026-11-01)\n\nAll of it.\n",
    f"{ONE}/.cruft.json": "{}",
    f"{ONE}/.github/workflows/ci.yml": WORKFLOW,
    f"{ONE}/src/connector_one/__init__.py": (
        "from connectors_core.compatibility import check_spark\n\ncheck_spark('connector-one')\n"
    ),
}

# What a repository with releases has besides.
RELEASED: dict[str, str | None] = {
    "compatibility-matrix.yaml": MATRIX.replace(
        "\nconnectors:",
        '\ncore:\n  majors:\n    "1":\n      version: "1.4.0"\n      status: features\n'
        "\nconnectors:",
    ),
    f"{CORE}/CHANGELOG.md": "# Changelog\n\n## 1.4.0 (2026-11-01)\n\nAll of it.\n",
    "docs/guide.md": (
        "# A guide\n\n`connector-one 2.0.1-4.3` is version\n2.0.1 for Spark 4.3. Install\n"
        "connector-one==2.0.0.3.5, connector_one-2.0.1.4.3-py3-none-any.whl,\n"
        "connectors-core 1.5.0, or\n`2.0.1.4.3`. Examples name 3.1.2-3.5. "
        "It needs Spark 3.5.9, not 127.0.0.1.\n"
    ),
    PAGE: "# Tested\n\n<!-- tested -->\n<!-- end -->\n",
}


class MatrixTree(GitTree):
    """The repository with the matrix commands."""

    @classmethod
    def with_releases(cls, root: Path) -> Self:
        """Release the core 1.4.0, and the connector 2.0.0 and 2.0.1; 3.0.0 is next."""
        tree = cls.new(root, {**FILES, **RELEASED})
        tree.release(name=CORE)
        tree.change(f"{CORE}/pyproject.toml", "1.4.0", "1.5.0")
        tree.release()
        tree.change(f"{ONE}/pyproject.toml", "2.0.0", "2.0.1")
        tree.change(f"{ONE}/CHANGELOG.md", "## 2", "## 2.0.1 (2026-11-02)\n\n## 2")
        tree.release()
        tree.matrix("rotate", "--major", ONE)
        tree.commit({})
        matrix = MatrixFile.of(Repository(tree.root)).matrix()
        core = git(tree.root, "rev-parse", f"HEAD:{CORE}")
        rows = [
            Row(
                release=str(cell.release),
                result="passed",
                tests="3 passed",
                core="1.5.0",
                spark=matrix.spark[str(cell.spark)].pyspark,
                java="17.0.9",
                python="3.11.7",
                tree=(cell.major.tree or git(tree.root, "rev-parse", f"HEAD:{ONE}"))[:DIGITS],
                core_tree=core[:DIGITS],
                date="2026-11-03",
            )
            for cell in matrix.cells()
        ]
        tree.commit({PAGE: written(tree.text(PAGE), rows)})
        return tree

    def matrix(self, *arguments: str) -> Result:
        return self.invoke("matrix", *arguments)

    def change(self, name: str, old: str, new: str) -> None:
        """Replace words in a file, and commit."""
        self.commit(self.replaced(name, old, new))

    def release(
        self,
        commit: str = "HEAD",
        name: str = ONE,
        *,
        released: datetime.date = datetime.date(2026, 11, 1),
    ) -> str:
        """Release the version in a commit: its pin and its record. Return the commit's id."""
        commit = git(self.root, "rev-parse", commit)
        project = Project.parse(git(self.root, "show", f"{commit}:{name}/pyproject.toml"), name)
        spark = sorted(project.spark)
        version = project.version
        builds = [f"{version}.{each}" for each in spark] or [version]
        files = [each for build in builds for each in file_names(name, build)]
        file = MatrixFile.of(Repository(self.root))
        pin = file.entry(name, Version.parse(version).major)
        record = Record(
            connector=name,
            version=version,
            spark=spark,
            commit=commit,
            tree=git(self.root, "rev-parse", f"{commit}:{name}"),
            core=None if name == CORE else pin["core"],
            artefacts=dict.fromkeys(files, "0" * 64),
            released=released,
        )
        pin["version"], pin["released"] = Quoted(record.version), record.released
        pin["commit"], pin["tree"] = Quoted(record.commit), Quoted(record.tree)
        file.write()
        self.commit({f"releases/{record.name}.yaml": record.text()})
        self.matrix("check", "--fix")
        self.commit({})
        return commit
