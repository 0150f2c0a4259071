# SPDX-License-Identifier: Apache-2.0
import json

from template_tree import TEMPLATE, Tree

ANSWERS = ("--description", "In memory", "--owner", "someone", "--source", "--no-sink")


def rules(forbidden: str) -> dict[str, str]:
    """Return the files of a template that rejects a name."""
    questions = json.loads(TEMPLATE["connector-template/cookiecutter.json"])
    questions |= {"__checked": "{{ cookiecutter.name | checked }}"}
    return {
        "connector-template/cookiecutter.json": json.dumps(
            {**questions, "_extensions": ["connector_answers.checked"]}
        ),
        "connector-template/connector_answers.py": (
            "from cookiecutter.exceptions import FailedHookException\n"
            "from cookiecutter.utils import simple_filter\n\n\n"
            "@simple_filter\n"
            "def checked(name):\n"
            f"    if name == {forbidden!r}:\n"
            "        raise FailedHookException(f'never {name}')\n"
            "    return ''\n"
        ),
    }


def test_a_connector_is_created_with_its_answers(tree: Tree) -> None:
    result = tree.run("create", "memory", *ANSWERS)
    assert result.exit_code == 0, result.output
    assert tree.text("connector-memory/README.md") == "# memory of someone\n"
    assert not (tree.root / "connector-memory/docs/sink.md").exists()
    said = json.loads(tree.text("connector-memory/.cruft.json"))
    assert said["template"] == ".."
    assert said["directory"] == "connector-template"
    assert said["context"]["cookiecutter"] == {
        "name": "memory",
        "description": "In memory",
        "owner": "someone",
        "source": True,
        "sink": False,
        "lookup": False,
    }
    assert tree.check("connector-memory")["connector-memory"]["state"] == "up to date"


def test_the_next_commands_are_printed(tree: Tree) -> None:
    output = tree.run("create", "memory", *ANSWERS).output
    assert "commit it, then run make env and its tests/unit" in output
    assert (
        "release-tools flip new 'A connector for memory' --author HANDLE --connector memory "
        "--description 'In memory' --no-sink\n"
    ) in output
    assert "release-tools flip scaffold NUMBER --sponsor HANDLE" in output


def test_missing_answers_are_prompted_for(tree: Tree) -> None:
    result = tree.run("create", "memory", "--owner", "someone", input="In memory\ny\nn\n")
    assert result.exit_code == 0, result.output
    said = json.loads(tree.text("connector-memory/.cruft.json"))["context"]["cookiecutter"]
    assert (said["description"], said["source"], said["sink"]) == ("In memory", True, False)


def test_an_existing_connector_is_not_overwritten(tree: Tree) -> None:
    result = tree.run("create", "connector-one", *ANSWERS)
    assert result.exit_code == 2
    assert "connector-one already exists" in result.output
    assert tree.text("connector-one/README.md") == "# one of someone\n"


def test_an_invalid_name_is_an_error_and_creates_nothing(tree: Tree) -> None:
    tree.commit(rules("Memory"))
    result = tree.run("create", "Memory", *ANSWERS)
    assert result.exit_code == 2
    assert result.output == "error: connector-template rejects the answers: never Memory\n"
    assert not (tree.root / "connector-Memory").exists()


def test_each_state_of_the_template_has_its_own_rules(tree: Tree) -> None:
    tree.commit(rules("Memory"))
    tree.create("other")
    tree.commit(rules("other"))
    error = tree.check("connector-other")["connector-other"]["error"]
    assert error["message"] == "connector-template rejects the answers: never other"


def test_an_existing_connector_is_linked_and_then_updated(tree: Tree) -> None:
    tree.commit({"connector-old/pyproject.toml": "[project]\n"})
    unready = tree.run("link", "connector-old", *ANSWERS)
    assert unready.exit_code == 2
    assert "list them first: [tool.cruft] skip" in unready.output
    tree.commit(
        {
            "connector-old/pyproject.toml": '[tool.cruft]\nskip = ["src/**", "README.md"]\n',
            "connector-old/README.md": "# Mine\n",
        }
    )
    unlinked = tree.run("check", "connector-old")
    assert unlinked.exit_code == 2
    assert "run `release-tools template link connector-old`" in unlinked.output
    result = tree.run("link", "connector-old", *ANSWERS)
    assert result.exit_code == 0, result.output
    verdict = tree.check("connector-old")["connector-old"]
    assert [file["path"] for file in verdict["files"]] == ["tox.ini"]
    tree.commit({})
    tree.update("connector-old", "--restore")
    assert tree.check("connector-old")["connector-old"]["state"] == "up to date"
    assert tree.text("connector-old/README.md") == "# Mine\n"
    again = tree.run("link", "connector-old", *ANSWERS)
    assert again.exit_code == 2
    assert "connector-old is already linked" in again.output
