# SPDX-License-Identifier: Apache-2.0
"""A small repository whose files agree with its compatibility matrix."""

from __future__ import annotations

from click.testing import Result
from git_tree import GitTree, git

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
FILES: dict[str, str | None] = {
    "compatibility-matrix.yaml": MATRIX,
    "Makefile": "# Oldest first.\nLINES := 35 43\n",
    "README.md": TABLE,
    "pyproject.toml": '[tool.importlinter]\nroot_packages = ["connector_one"]\n',
    "requirements/pyspark35.txt": "pyspark==3.5.9 --hash=sha256:1\n",
    "requirements/pyspark43.txt": "pyspark==4.3.0 --hash=sha256:2\n",
    "requirements/spark35.in": "-r base.in\n-r pyspark35.txt\nnumpy<2 # old\npandas\n",
    "requirements/spark43.in": "-r base.in\n-r pyspark43.txt\nnumpy\npandas<3\n",
    "requirements/spark35.txt": "numpy==1.26.4 \\\n    --hash=sha256:3\npandas==2.3.0\n",
    "requirements/spark43.txt": "numpy==2.3.0\npandas==2.3.0\n",
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
    f"{ONE}/.cruft.json": "{}",
    f"{ONE}/.github/workflows/ci.yml": WORKFLOW,
    f"{ONE}/src/connector_one/__init__.py": (
        "from connectors_core.compatibility import check_spark\n\ncheck_spark('connector-one')\n"
    ),
}
PIN = """\
        commit: "COMMIT"
        tree: "TREE"
        released: 2026-11-01
"""


class MatrixTree(GitTree):
    """The repository with the matrix commands."""

    def matrix(self, *arguments: str) -> Result:
        return self.invoke("matrix", *arguments)

    def change(self, name: str, old: str, new: str) -> None:
        """Replace words in a file, and commit."""
        self.commit(self.replaced(name, old, new))

    def release(self, commit: str = "HEAD") -> str:
        """Pin a commit as the release 2.0.0 in the matrix, and return its id."""
        commit = git(self.root, "rev-parse", commit)
        tree = git(self.root, "rev-parse", f"{commit}:{ONE}")
        pin = PIN.replace("COMMIT", commit).replace("TREE", tree)
        core = '        core: ">=1.0,<2"\n'
        self.commit(self.replaced("compatibility-matrix.yaml", core, f"{pin}{core}"))
        self.matrix("check", "--fix")
        self.commit({})
        return commit
