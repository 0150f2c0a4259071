# SPDX-License-Identifier: Apache-2.0
"""On the forge, the author and the approvals of a pull request show who took a step."""

import datetime

import pytest
from git_tree import git
from pull_requests import OLDER, request, review

FINE = "follow the rules"


def asked(tree, *approvers, author="bob", head=None, opened=None, **others):
    """Commit everything, and return the pull request as the forge tells it."""
    tree.commit(by="someone@example.org")
    head = head or tree.head()
    reviews = [review(name, commit=head) for name in approvers]
    opened = (opened or tree.now).isoformat()
    return request(*reviews, author=author, head=head, created_at=opened, **others)


def test_the_author_of_a_pull_request_takes_a_step(decided):
    decided.vote(2, bob="+1")
    assert FINE in decided.checked(asked=asked(decided, author="Bob"), code=0)
    said = decided.checked(asked=asked(decided, author="eve"))
    assert (
        "0002-two.md: +1 of bob: recorded for bob, but pull request 7 is from eve: this person "
        "opens the pull request or approves its last commit"
    ) in said


def test_an_approval_shows_the_vote_of_another_person(decided):
    decided.vote(2, bob="+1", carol="+1")
    pull = asked(decided, "CAROL")
    assert FINE in decided.checked(asked=pull, code=0)
    assert "+1 of carol: recorded for carol" in decided.checked(asked={**pull, "reviews": []})


@pytest.mark.parametrize(
    ("state", "commit"),
    [("COMMENTED", None), ("CHANGES_REQUESTED", None), ("DISMISSED", None), ("APPROVED", OLDER)],
)
def test_only_an_approval_of_the_last_commit_shows_a_vote(decided, state, commit):
    decided.vote(2, carol="+1")
    pull = asked(decided)
    reviews = [review("carol", state, commit=commit or pull["head"]["sha"])]
    said = decided.checked(asked={**pull, "reviews": reviews})
    assert "+1 of carol: recorded for carol, but pull request 7 is from bob" in said


def test_the_last_review_of_a_person_counts(decided):
    decided.vote(2, carol="+1")
    pull = asked(decided)
    head = pull["head"]["sha"]
    reviews = [
        review("carol", commit=head),
        review("carol", "CHANGES_REQUESTED", commit=head, at="2026-03-11T12:00:00Z"),
    ]
    assert "recorded for carol" in decided.checked(asked={**pull, "reviews": reviews})


def test_a_deleted_account_shows_nothing(decided):
    decided.vote(2, carol="+1")
    pull = asked(decided)
    ghost = {**review("carol", commit=pull["head"]["sha"]), "user": None}
    assert "recorded for carol" in decided.checked(asked={**pull, "reviews": [ghost]})


def test_the_addresses_of_commits_show_nothing_on_the_forge(decided):
    decided.vote(2, carol="+1")
    decided.commit(by="carol")
    assert "recorded for carol" in decided.checked(asked=asked(decided, author="mallory"))


def test_the_head_of_the_pull_request_is_checked_and_not_the_working_tree(decided):
    decided.vote(2, carol="+1")
    pull = asked(decided, author="mallory")
    git(decided.root, "reset", "--quiet", "--hard", decided.base)
    (decided.root / "flips/0003-three.md").write_text("not a proposal")
    said = decided.checked(asked=pull)
    assert "0002-two.md: +1 of carol: recorded for carol" in said
    assert "0003-three.md" not in said


def test_a_step_is_not_older_than_the_target_when_the_pull_request_was_opened(decided):
    decided.vote(2, bob="+1")
    opened = decided.now
    git(decided.root, "checkout", "--quiet", "-b", "branch")
    decided.commit(by="bob")
    git(decided.root, "checkout", "--quiet", "main")
    decided.later(days=1)
    decided.base = decided.commit({"elsewhere.txt": "a merge of something else"})
    git(decided.root, "checkout", "--quiet", "branch")
    with decided.acting("bob", decided.now):
        git(decided.root, "merge", "--quiet", "--no-edit", "main")
    assert FINE in decided.checked(asked=asked(decided, opened=opened), code=0)
    late = asked(decided, opened=decided.now)
    assert "+1 of bob: dated 2026-03-18 12:05:00 UTC, before the newest commit" in decided.checked(
        asked=late
    )


def test_a_pull_request_that_was_opened_early_cannot_vote_for_an_earlier_day(decided):
    opened = decided.now
    (decided.root / "MAINTAINERS.yaml").write_text(
        (decided.root / "MAINTAINERS.yaml")
        .read_text()
        .replace(
            "{handle: carol, since: 2026-01-01}",
            "{handle: carol, since: 2026-01-01, until: 2026-03-18}",
        )
    )
    decided.merge()
    decided.vote(2, carol="+1")
    decided.later(days=2)
    said = decided.checked(asked=asked(decided, author="carol", opened=opened))
    assert "+1 of carol: a binding vote began or ended after 2026-03-18" in said


def test_a_person_adds_their_own_address(decided):
    people = decided.root / "MAINTAINERS.yaml"
    people.write_text(people.read_text() + "  dan: [dan@example.org]\n")
    said = decided.checked(asked=asked(decided, author="mallory"))
    assert "MAINTAINERS.yaml: addresses: recorded for dan, but pull request 7 is from" in said
    assert FINE in decided.checked(asked=asked(decided, "dan", author="mallory"), code=0)


def test_an_address_belongs_to_one_person(decided):
    people = decided.root / "MAINTAINERS.yaml"
    people.write_text(people.read_text() + "  dan: [Eve@example.org]\n")
    said = decided.checked(code=2)
    assert "addresses: eve@example.org belongs to both eve and dan" in said


def test_a_head_that_is_not_in_the_clone_is_an_error(decided):
    said = decided.checked(asked=asked(decided, head="d" * 40), code=2)
    assert f"{'d' * 40} is not a commit of this clone" in said
    assert "hint: run `git fetch origin pull/7/head`" in said


def test_a_pull_request_needs_its_target(decided):
    file = decided.root / "pull.json"
    result = decided.run("flip", "check", "--pull-request", str(file))
    assert result.exit_code == 2
    assert "--pull-request needs --base" in result.output


def test_a_date_of_the_future_is_refused(decided):
    decided.vote(2, bob="+1")
    decided.now -= datetime.timedelta(seconds=30)
    assert "+1 of bob: dated 2026-03-18 12:05:00 UTC, which is in the future" in decided.checked(
        asked=asked(decided)
    )
