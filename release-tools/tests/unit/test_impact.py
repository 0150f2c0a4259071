# SPDX-License-Identifier: Apache-2.0
"""A change affects the cells whose files, versions, and imports it reaches."""

import json
from pathlib import Path

import pytest
from matrix_tree import ONE, MatrixTree

from connector_release_tools.impact.import_graph import ImportGraph

CORE = "connectors-core/src/connectors_core"
API = f"{CORE}/formats/__init__.py"
FILES = {
    "connectors-core/pyproject.toml": (
        '[project]\nname = "connectors-core"\nversion = "1.4.0"\n'
        '[project.entry-points.pytest11]\nconnectors = "connectors_core.plugin"\n'
        '[project.entry-points."connectors.tables"]\ntable = "connectors_core.tables:Table"\n'
    ),
    f"{CORE}/__init__.py": (
        "from typing import TYPE_CHECKING\n"
        "from connectors_core._lazy import lazily\n"
        "if TYPE_CHECKING:\n    from connectors_core.pipeline import Pipeline\n"
        'else:\n    __getattr__ = lazily({"connectors_core.pipeline": ["Pipeline"]})\n'
        '__all__ = ["Pipeline"]\n'
    ),
    f"{CORE}/_lazy.py": "def lazily(names):\n    pass\n",
    f"{CORE}/pipeline.py": "def run():\n    from connectors_core.engine import epochs\n",
    f"{CORE}/engine/__init__.py": "",
    f"{CORE}/engine/epochs.py": "",
    f"{CORE}/plugin.py": "import pytest\n",
    API: (
        "from connectors_core.formats.csv import Csv\n"
        "from connectors_core.formats.json import Json\n"
        '__all__ = ["Csv", "Json"]\n'
    ),
    f"{CORE}/formats/csv.py": "class Csv:\n    pass\n",
    f"{CORE}/formats/json.py": "from connectors_core import texts\nclass Json:\n    pass\n",
    f"{CORE}/texts.py": "",
    f"{CORE}/tables.py": "class Table:\n    pass\n",
    f"{CORE}/unused.py": "",
    f"{ONE}/src/connector_one/__init__.py": "from connectors_core.formats import Json\n",
    f"{ONE}/tests/test_one.py": "from connectors_core import Pipeline\n",
}
COLLECTION = "from top.one import a\nfrom top.two import b\n__all__ = ['a', 'b']\n"
BOTH = [f"{ONE} 2.0.0-4.3", f"{ONE} 2.0.0-3.5"]


@pytest.fixture
def changed(matrix_tree: MatrixTree) -> MatrixTree:
    """A repository in which connector-one imports names of a core."""
    matrix_tree.commit(FILES)
    return matrix_tree


def affected(tree: MatrixTree, base: str = "HEAD~1") -> dict[str, dict]:
    """Return the affected cells by name."""
    said = tree.invoke("impact", "--base", base, "--format", "json")
    assert said.exit_code == 0, said.output
    return {cell["name"]: cell for cell in json.loads(said.output)["affected"]}


def test_documents_and_modules_that_no_connector_imports_affect_no_cell(changed):
    names = (
        "README.md",
        f"{ONE}/README.md",
        f"{ONE}/docs/options.py",
        f"{ONE}/changelog.d/.gitignore",
        f"{CORE}/unused.py",
        f"{CORE}/formats/csv.py",
        "connectors-core/tests/unit/test_words.py",
        "connectors-core/changelog.d/+words.feature.md",
    )
    changed.commit(dict.fromkeys(names, "# changed\n"))
    assert affected(changed) == {}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (f"{ONE}/src/connector_one/more.py", "its files: src/connector_one/more.py"),
        (f"{ONE}/tests/test_more.py", "its files: tests/test_more.py"),
        (f"{ONE}/pyproject.toml", "its files: pyproject.toml"),
        (f"{CORE}/formats/json.py", "its code uses connectors_core.formats.Json"),
        (f"{CORE}/texts.py", "its code uses connectors_core.formats.Json"),
        (f"{CORE}/engine/epochs.py", "its tests use connectors_core.Pipeline"),
        (f"{CORE}/plugin.py", "every cell loads connectors_core.plugin"),
        (f"{CORE}/tables.py", "every cell loads connectors_core.tables.Table"),
        (f"{CORE}/words.md", "every cell installs the core: src/connectors_core/words.md"),
        (f"{ONE}/tests/words.md", "its files: tests/words.md"),
        (f"{CORE}/py.typed", "every cell installs the core: src/connectors_core/py.typed"),
        ("connectors-core/pyproject.toml", "every cell installs the core: pyproject.toml"),
    ],
)
def test_a_change_affects_the_cells_that_run_it(changed, name, reason):
    text = changed.text(name) if (changed.root / name).exists() else ""
    changed.commit({name: f"{text}# changed\n"})
    found = affected(changed)
    assert list(found) == BOTH
    assert all(reason in cell["reasons"] for cell in found.values())


def test_the_names_of_the_core_that_a_change_reaches_are_listed(changed):
    changed.commit({f"{CORE}/texts.py": "# changed\n"})
    assert affected(changed)[BOTH[0]]["names"] == ["connectors_core.formats.Json"]


def test_a_removed_module_affects_who_imported_it(changed):
    changed.commit({f"{CORE}/formats/json.py": None, API: "__all__ = []\n"})
    assert affected(changed)[BOTH[0]]["names"] == ["connectors_core.formats.Json"]


def test_tested_versions_affect_the_cells_of_their_spark_line(changed):
    changed.change("requirements/spark35.txt", "numpy==1.26.4", "numpy==1.26.5")
    assert affected(changed) == {
        BOTH[1]: {**affected(changed)[BOTH[1]], "reasons": ["the tested versions for Spark 3.5"]}
    }


def test_a_cell_that_the_base_lacks_is_affected(changed):
    changed.change("compatibility-matrix.yaml", 'spark: ["4.3", "3.5"]', 'spark: ["4.3"]')
    changed.change("compatibility-matrix.yaml", 'spark: ["4.3"]', 'spark: ["4.3", "3.5"]')
    found = affected(changed)
    assert {name: cell["reasons"] for name, cell in found.items()} == {BOTH[1]: ["the cell is new"]}


def test_a_base_without_a_matrix_makes_every_cell_new(changed):
    text = changed.text("compatibility-matrix.yaml")
    changed.commit({"compatibility-matrix.yaml": None})
    changed.commit({"compatibility-matrix.yaml": text})
    assert list(affected(changed)) == BOTH


def test_a_released_major_has_the_imports_of_its_release(changed):
    changed.release()
    base = changed.head()
    changed.commit({f"{ONE}/src/connector_one/__init__.py": "\n"})
    assert affected(changed, base) == {}
    changed.commit({f"{CORE}/texts.py": "# changed\n"})
    assert affected(changed, base)[BOTH[0]]["names"] == ["connectors_core.formats.Json"]


def test_a_release_affects_its_cells(changed):
    changed.release()
    found = affected(changed, "HEAD~2")
    assert all("the matrix pins another tree" in cell["reasons"] for cell in found.values())
    assert list(found) == BOTH


def test_a_workflow_gets_the_affected_cells_on_one_line(changed):
    changed.change("requirements/spark35.txt", "numpy==1.26.4", "numpy==1.26.5")
    said = changed.invoke("impact", "--base", "HEAD~1", "--format", "github").output
    (cell,) = json.loads(said)["include"]
    assert (cell["connector"], cell["major"], cell["spark"]) == (ONE, "2", "3.5")
    assert said.count("\n") == 1


def test_the_table_has_a_row_for_the_cells_with_the_same_reasons(changed):
    changed.commit({f"{CORE}/texts.py": "# changed\n"})
    said = changed.invoke("impact", "--base", "HEAD~1").output
    assert "4.3, 3.5" in said
    assert said.count("its code uses connectors_core.formats.Json") == 1
    assert "2 of 2 cells are affected" in said


def test_an_unknown_base_is_an_error(changed):
    said = changed.invoke("impact", "--base", "origin/nowhere")
    assert said.exit_code == 2
    assert "pass a commit or branch" in said.output


def graph(folder: Path, package: str = "", **modules: str) -> ImportGraph:
    """Return the imports of a package `top`, its text, and the texts of its modules."""
    (folder / "top").mkdir()
    for name, text in {"__init__": package, **modules}.items():
        (folder / "top" / f"{name}.py").write_text(text)
    return ImportGraph.of(folder)


def test_importing_a_package_as_a_whole_reaches_all_of_its_names(tmp_path):
    made = graph(tmp_path, COLLECTION, one="", two="")
    assert made.reached([("top", None)]) == {"top", "top.one", "top.two"}


def test_importing_a_name_of_a_package_reaches_only_its_module(tmp_path):
    made = graph(tmp_path, COLLECTION, one="", two="")
    assert made.reached([("top", "a")]) == {"top", "top.one"}
    assert made.reached([("top", "one")]) == {"top", "top.one"}


def test_a_package_with_code_of_its_own_imports_what_its_code_needs(tmp_path):
    package = "from top.two import b\n\ndef f():\n    b()\n"
    made = graph(tmp_path, package, one="", two="import top.one\n")
    assert made.reached([("top", "f")]) == {"top", "top.one", "top.two"}


def test_a_text_that_names_a_module_or_an_object_in_it_counts_as_an_import(tmp_path):
    one = "MOVED = 'top.two.Name'\nPOINT = 'top.three:f'\n"
    made = graph(tmp_path, one=one, two="", three="", four="")
    assert made.reached([("top.one", None)]) == {"top", "top.one", "top.two", "top.three"}


def test_an_import_of_all_names_reaches_all_modules(tmp_path):
    made = graph(tmp_path, COLLECTION, one="", two="", three="from top import *\n")
    assert made.reached([("top", "*")]) == {"top", "top.one", "top.two"}
    assert made.reached([("top.three", None)]) == {"top", "top.one", "top.two", "top.three"}


def test_a_package_that_passes_on_all_names_of_a_module_reaches_it(tmp_path):
    made = graph(tmp_path, "from top.one import *\n", one="def f(): pass\n", two="")
    assert made.reached([("top", "f")]) == {"top", "top.one"}


def test_relative_imports_are_followed(tmp_path):
    made = graph(
        tmp_path, "from .one import a\n__all__ = ['a']\n", one="from . import two\n", two=""
    )
    assert made.reached([("top", "a")]) == {"top", "top.one", "top.two"}


def test_a_module_that_is_named_when_the_code_runs_can_be_any_of_its_package(tmp_path):
    one = "def load(name):\n    return importlib.import_module(f'top.{name}')\n"
    made = graph(tmp_path, one=one, two="")
    assert made.reached([("top.one", "load")]) == {"top", "top.one", "top.two"}


def test_modules_that_import_each_other_are_reached_once(tmp_path):
    made = graph(tmp_path, one="import top.two\n", two="import top.one\n")
    assert made.reached([("top.one", "x")]) == {"top", "top.one", "top.two"}
    assert made.reached([("other", "x")]) == frozenset()
