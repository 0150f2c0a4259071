# SPDX-License-Identifier: Apache-2.0
"""Tests the required approvals, CODEOWNERS, and issue forms."""

import datetime
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pull_requests import OLDER, request, review
from typer.testing import CliRunner

from connector_release_tools.cli import app
from connector_release_tools.errors import MaintainersError
from connector_release_tools.maintainers import Maintainers
from connector_release_tools.review.approval import objections
from connector_release_tools.review.codeowners import codeowners
from connector_release_tools.review.pull_request import PullRequest

ROOT = Path(__file__).parents[3]
PEOPLE = """\
folders:
  /: [{handle: alice, since: 2026-01-01}, {handle: org/owners, since: 2026-01-01}]
  connector-one:
    - {handle: Bob, since: 2026-01-01}
    - {handle: carol, since: 2026-01-01, until: 2026-03-31}
  connector-one/docs:
    - {handle: dan, since: 2026-01-01}
"""


def against(*reviews, people=PEOPLE, **others):
    asked = PullRequest.model_validate(request(*reviews, **others))
    return objections(asked, Maintainers.parse(people))


def test_a_maintainer_of_the_folder_approves():
    assert against(review("BOB")) == []


@pytest.mark.parametrize(
    ("reviews", "message"),
    [
        ([], "connector-one: needs the approval of bob"),
        ([review("alice")], "connector-one: needs the approval of bob"),
        ([review("mallory")], "connector-one: needs the approval of bob"),
        ([review("bob", "COMMENTED")], "connector-one: needs the approval of bob"),
        ([review("bob", commit=OLDER)], "connector-one: bob approved an earlier commit than aaaaa"),
        ([review("carol", at="2026-04-01T00:00:00Z")], "needs the approval of bob"),
        ([review("carol"), review("bob", "CHANGES_REQUESTED")], "bob requested changes"),
        (
            [review("bob"), review("bob", "DISMISSED", at="2026-03-11T12:00:00Z")],
            "connector-one: needs the approval of bob",
        ),
    ],
)
def test_a_change_without_approval_is_refused(reviews, message):
    (said,) = against(*reviews)
    assert message in said


def test_the_last_review_of_a_person_counts_in_any_order():
    reviews = [
        review("bob", "CHANGES_REQUESTED"),
        review("bob", at="2026-03-11T12:00:00Z"),
        review("bob", "COMMENTED", at="2026-03-12T12:00:00Z"),
    ]
    assert against(*reviews) == []
    assert against(*reversed(reviews)) == []


def test_authors_cannot_approve_their_own_changes():
    assert against(review("bob"), review("carol"), author="Bob") == []
    (said,) = against(review("bob"), author="Bob", files=("connector-one/a",))
    assert "its only maintainer is the author, bob; add a second maintainer" in said


def test_a_team_alone_cannot_approve():
    people = PEOPLE.replace("{handle: alice, since: 2026-01-01}, ", "")
    (said,) = against(review("alice"), files=("README.md",), people=people)
    assert said == "/: maintained only by org/owners; add people to MAINTAINERS.yaml"


def test_every_changed_folder_needs_its_own_approval():
    files = ("README.md", "connector-one/docs/deep/a.md", "connector-one/b.py", "connector-onely/c")
    said = against(review("bob"), files=files)
    assert said == [
        "/: needs the approval of alice",
        "connector-one/docs: needs the approval of dan",
    ]
    assert against(review("bob"), review("alice"), review("dan"), files=files) == []


def test_a_file_that_moves_out_of_a_folder_changes_it():
    moved = [{"filename": "new.py", "status": "renamed", "previous_filename": "connector-one/a.py"}]
    asked = PullRequest.model_validate({**request(review("alice"), files=("x",)), "files": moved})
    assert objections(asked, Maintainers.parse(PEOPLE)) == [
        "connector-one: needs the approval of bob"
    ]


people = st.sampled_from(["alice", "bob", "carol", "dan", "eve", "mallory"])
states = st.sampled_from(["APPROVED", "CHANGES_REQUESTED", "COMMENTED", "DISMISSED"])
minutes = st.integers(0, 59).map(lambda it: f"2026-03-10T12:{it:02}:00Z")
reviews = st.lists(
    st.builds(lambda who, what, when: review(who, what, at=when), people, states, minutes),
    max_size=8,
    unique_by=lambda it: it["submitted_at"],
)


@given(reviews, people)
def test_the_last_reviews_of_the_other_maintainers_decide_the_approval(given, author):
    said = [it for it in given if it["state"] != "COMMENTED"]
    said.sort(key=lambda it: it["submitted_at"])
    last = {it["user"]["login"]: it["state"] for it in said}
    owners = {name: state for name, state in last.items() if name in {"bob", "carol"} - {author}}
    approved = "APPROVED" in owners.values() and "CHANGES_REQUESTED" not in owners.values()
    assert (against(*given, author=author) == []) is approved


@pytest.mark.parametrize(
    ("name", "fine"),
    [
        ("42.feature.md", True),
        ("42.bugfix.2.md", True),
        ("+some-words.misc.md", True),
        (".gitignore", True),
        ("042.feature.md", False),
        ("some-words.feature.md", False),
        ("42.chore.md", False),
        ("42.md", False),
    ],
)
def test_changelog_fragments_are_named_for_their_issue(name, fine):
    path = f"connector-one/changelog.d/{name}"
    said = against(review("bob"), files=(path,))
    assert said == [] if fine else "a changelog fragment is named after its issue" in said[0]


@pytest.fixture
def repository(flips):
    flips.base = flips.commit({"MAINTAINERS.yaml": PEOPLE})
    return flips


def checked(tree, document):
    file = tree.root / "pull-request.json"
    file.write_text(document if isinstance(document, str) else json.dumps(document))
    return tree.run("review", "check", "--pull-request", str(file))


def test_the_maintainers_of_the_base_decide(repository):
    base = {"sha": repository.base}
    assert checked(repository, {**request(review("bob")), "base": base}).exit_code == 0
    (repository.root / "MAINTAINERS.yaml").write_text(PEOPLE.replace("Bob", "mallory"))
    refused = checked(repository, {**request(review("mallory")), "base": base})
    assert refused.exit_code == 1
    assert "connector-one: needs the approval of bob" in refused.output


def test_the_newest_commit_of_the_target_decides_if_it_is_given(repository):
    file = repository.root / "pull-request.json"
    file.write_text(json.dumps({**request(review("bob")), "base": {"sha": repository.base}}))
    repository.later(days=1)
    repository.commit({"MAINTAINERS.yaml": PEOPLE.replace("Bob", "dan")})
    result = repository.run("review", "check", "--pull-request", str(file), "--base", "HEAD")
    assert result.exit_code == 1
    assert "connector-one: needs the approval of dan" in result.output


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (request(), "commit cccccccccccc, the base of the pull request, is not in this clone"),
        (request(changed_files=3), "1 of 3 changed files are listed; download all pages"),
        ({"number": 7}, "pull-request.json: user: Field required"),
        ("no json", "pull-request.json is not valid JSON"),
    ],
)
def test_invalid_input_is_an_error(repository, document, message):
    result = checked(repository, document)
    assert result.exit_code == 2
    assert message in result.output


def test_the_generated_files_of_this_repository_are_up_to_date():
    result = CliRunner().invoke(app, ["review", "sync", "--dry-run", "--root", str(ROOT)])
    assert result.exit_code == 0, result.output


def test_the_forms_follow_the_matrix(accepted):
    before = accepted.root / ".github/ISSUE_TEMPLATE/bug.yml"
    shown = accepted.run("review", "sync", "--dry-run")
    assert shown.exit_code == 1
    assert "+        - connector-one" in shown.output
    assert "none yet" in before.read_text()
    assert accepted.run("review", "sync").exit_code == 0
    assert "- connectors-core\n        - connector-one\n" in before.read_text()
    assert accepted.run("review", "sync", "--dry-run").exit_code == 0


def test_a_form_that_does_not_ask_for_the_component_is_an_error(accepted):
    form = accepted.root / ".github/ISSUE_TEMPLATE/bug.yml"
    form.write_text(form.read_text().replace("id: component", "id: part"))
    result = accepted.run("review", "sync")
    assert result.exit_code == 2
    assert "bug.yml has no dropdown with the id component" in result.output


def test_code_owners_are_the_maintainers_without_an_end_date():
    assert codeowners(Maintainers.parse(PEOPLE)).splitlines()[1:] == [
        "* @alice @org/owners",
        "/connector-one/ @bob",
        "/connector-one/docs/ @dan",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("folders: {}", "/ needs a maintainer"),
        ("folders: {/: [{handle: a b, since: 2026-01-01}]}", "handle: String should match pattern"),
        ("folders: {../x: [{handle: a, since: 2026-01-01}]}", "String should match pattern"),
        (
            "folders: {/: [{handle: a, since: 2026-01-02, until: 2026-01-01}]}",
            "until (2026-01-01) is before since (2026-01-02)",
        ),
        (
            "folders: {/: [{handle: a, since: 2026-01-01}]}\n"
            "binding: [{handle: o/team, since: 2026-01-01}]",
            "binding.0.handle: String should match pattern",
        ),
        ("folders: [", "MAINTAINERS.yaml is not valid YAML"),
    ],
)
def test_an_invalid_list_of_maintainers_is_reported_with_its_location(text, message):
    with pytest.raises(MaintainersError) as raised:
        Maintainers.parse(text)
    assert message in str(raised.value)


def test_a_term_holds_on_its_first_and_last_day():
    found = Maintainers.parse(PEOPLE)
    days = [datetime.date(2026, 3, 31), datetime.date(2026, 4, 1)]
    assert ["carol" in found.of_folder("connector-one", day) for day in days] == [True, False]
