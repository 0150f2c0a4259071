# SPDX-License-Identifier: Apache-2.0
"""The settings of the forge, read from responses of GitHub's REST API in their documented form.

https://docs.github.com/en/rest/repos/rules and /rest/actions/permissions describe them.
"""

import copy
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from click.testing import Result
from ruamel.yaml import YAML
from typer.testing import CliRunner

from connector_release_tools.cli import app
from connector_release_tools.forge.settings import CHECK, WORKFLOW

ROOT = Path(__file__).parents[3]
NAME = "spark-connectors/connectors"
TOKEN = "ghp_not-a-real-token"  # pragma: allowlist secret
FROM = {"ruleset_source_type": "Repository", "ruleset_source": NAME, "ruleset_id": 42}
REVIEWS = {
    "allowed_merge_methods": ["merge", "squash", "rebase"],
    "dismiss_stale_reviews_on_push": True,
    "require_code_owner_review": True,
    "require_last_push_approval": True,
    "required_approving_review_count": 1,
    "required_review_thread_resolution": False,
}
CHECKS = {
    "do_not_enforce_on_create": False,
    "required_status_checks": [
        {"context": "approvals", "integration_id": 15368},
        {"context": "tests", "integration_id": 15368},
    ],
    "strict_required_status_checks_policy": True,
}
RULESET = {
    "id": 42,
    "name": "main",
    "target": "branch",
    "source_type": "Repository",
    "source": NAME,
    "enforcement": "active",
    "bypass_actors": [],
    "conditions": {"ref_name": {"include": ["~DEFAULT_BRANCH"], "exclude": []}},
    "rules": [],
    "node_id": "RRS_lACqUmVwb3NpdG9yec4AAAAqzgAAACo",
    "created_at": "2026-11-26T09:00:00Z",
    "updated_at": "2026-11-26T09:00:00Z",
    "current_user_can_bypass": "never",
    "_links": {"self": {"href": f"https://api.github.com/repos/{NAME}/rulesets/42"}},
}
PROTECTED = {
    f"/repos/{NAME}": {"id": 7, "full_name": NAME, "private": False, "default_branch": "main"},
    f"/repos/{NAME}/rules/branches/main": [
        {"type": "deletion", **FROM},
        {"type": "non_fast_forward", **FROM},
        {"type": "pull_request", "parameters": REVIEWS, **FROM},
        {"type": "required_status_checks", "parameters": CHECKS, **FROM},
    ],
    f"/repos/{NAME}/rulesets/42": RULESET,
    f"/repos/{NAME}/actions/permissions/workflow": {
        "default_workflow_permissions": "read",
        "can_approve_pull_request_reviews": False,
    },
    f"/repos/{NAME}/codeowners/errors": {"errors": []},
    f"/repos/{NAME}/environments": {
        "total_count": 1,
        "environments": [
            {
                "id": 9,
                "name": "release",
                "protection_rules": [
                    {"id": 1, "type": "required_reviewers", "reviewers": [{"type": "Team"}]},
                    {"id": 2, "type": "branch_policy"},
                ],
                "deployment_branch_policy": {
                    "protected_branches": False,
                    "custom_branch_policies": True,
                },
            }
        ],
    },
    f"/repos/{NAME}/environments/release/deployment-branch-policies": {
        "total_count": 1,
        "branch_policies": [{"id": 3, "name": "main", "type": "branch"}],
    },
}
OWNER_ERROR = {
    "line": 2,
    "column": 3,
    "kind": "Unknown owner",
    "source": "* @spark-connectors/maintainers",
    "suggestion": "make sure the team exists and has write access",
    "message": "Unknown owner on line 2",
    "path": ".github/CODEOWNERS",
}


class Forge(ThreadingHTTPServer):
    """Serves recorded responses on loopback, and keeps the requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.responses = copy.deepcopy(PROTECTED)
        self.statuses: dict[str, int] = {}
        self.headers: dict[str, str] = {}
        self.seen: list[tuple[str, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def at(self, path: str):
        return self.responses[f"/repos/{NAME}{path}"]

    def doctor(self, name: str = NAME) -> Result:
        arguments = ["doctor", "--forge", name, "--api-url", self.url]
        return CliRunner().invoke(app, arguments, catch_exceptions=False)


class Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        self.server.seen.append((self.path, self.headers.get("Authorization")))
        status = self.server.statuses.get(parts.path, 200)
        found = self.server.responses.get(parts.path)
        if found is None:
            status, found = 404, {"message": "Not Found", "status": "404"}
        if isinstance(found, list):
            page, size = (int(parse_qs(parts.query)[key][0]) for key in ("page", "per_page"))
            found = found[(page - 1) * size : page * size]
        body = found.encode() if isinstance(found, str) else json.dumps(found).encode()
        self.send_response(status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def forge(monkeypatch: pytest.MonkeyPatch) -> Iterator[Forge]:
    monkeypatch.setenv("GH_TOKEN", TOKEN)
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    with Forge() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_protected_repository_has_no_findings(forge):
    result = forge.doctor()
    assert result.exit_code == 0, result.output
    assert result.output == f"main of {NAME} is protected\n"
    assert {token for _, token in forge.seen} == {f"Bearer {TOKEN}"}


def without(kind):
    def change(forge):
        rules = forge.at("/rules/branches/main")
        rules[:] = [rule for rule in rules if rule["type"] != kind]

    return change


def weaker(kind, **parameters):
    def change(forge):
        (rule,) = (it for it in forge.at("/rules/branches/main") if it["type"] == kind)
        rule["parameters"] |= parameters

    return change


def other(path, **values):
    return lambda forge: forge.at(path).update(values)


def environment(*types):
    def change(forge):
        (release,) = forge.at("/environments")["environments"]
        release["protection_rules"] = [{"type": each} for each in types]

    return change


ANY_APP = [{"context": "approvals"}]
OTHERS = [{"context": "tests", "integration_id": 15368}]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("non_fast_forward"), "can rewrite main: block force pushes"),
        (without("deletion"), "main can be deleted: restrict deletions"),
        (without("pull_request"), "without a pull request: require a pull request before merging"),
        (
            weaker("pull_request", required_approving_review_count=0),
            "a pull request needs no approval: require at least one approval",
        ),
        (
            weaker("pull_request", dismiss_stale_reviews_on_push=False),
            "an approval remains after another push: dismiss stale approvals",
        ),
        (
            weaker("pull_request", require_code_owner_review=False),
            "a change of the workflows needs no code owner: require review from code owners",
        ),
        (
            weaker("pull_request", require_last_push_approval=False),
            "and approve it: require approval of the most recent push",
        ),
        (
            weaker("required_status_checks", required_status_checks=OTHERS),
            "the check 'approvals' of .github/workflows/review.yml is not required: require",
        ),
        (
            weaker("required_status_checks", required_status_checks=ANY_APP),
            "any app can report the check 'approvals': select GitHub Actions as the source",
        ),
        (
            weaker("required_status_checks", strict_required_status_checks_policy=False),
            "that it was not checked with: require branches to be up to date before merging",
        ),
        (
            other(
                "/rulesets/42",
                bypass_actors=[
                    {"actor_id": 5, "actor_type": "RepositoryRole", "bypass_mode": "always"}
                ],
            ),
            "RepositoryRole 5 can bypass the ruleset 'main' (always): remove it from the bypass",
        ),
        (
            other(
                "/rulesets/42",
                bypass_actors=[
                    {"actor_id": None, "actor_type": "DeployKey", "bypass_mode": "always"}
                ],
            ),
            "DeployKey can bypass the ruleset 'main' (always)",
        ),
        (
            lambda forge: forge.at("/rulesets/42").pop("bypass_actors"),
            "the ruleset 'main' does not show who can bypass it: use the token of a person who",
        ),
        (
            other("/actions/permissions/workflow", can_approve_pull_request_reviews=True),
            "a workflow can approve pull requests: do not allow GitHub Actions to approve",
        ),
        (
            other("/actions/permissions/workflow", default_workflow_permissions="write"),
            "workflows can write by default: set the default permissions of workflows to read",
        ),
        (
            other("/codeowners/errors", errors=[OWNER_ERROR]),
            "CODEOWNERS has an error in line 2: Unknown owner: correct MAINTAINERS.yaml, and run",
        ),
        (
            other("/environments", environments=[]),
            "the environment 'release' does not exist, and is created without protection: create",
        ),
        (
            environment("branch_policy"),
            "no one needs to approve a job in the environment 'release': require reviewers",
        ),
        (
            environment("required_reviewers"),
            "another branch than main can use the environment 'release': select main as its only",
        ),
        (
            other(
                "/environments/release/deployment-branch-policies",
                branch_policies=[{"name": "*", "type": "branch"}],
            ),
            "another branch than main can use the environment 'release'",
        ),
    ],
)
def test_a_setting_that_protects_too_little_is_a_finding(forge, change, message):
    change(forge)
    result = forge.doctor()
    assert result.exit_code == 1, result.output
    assert message in result.output


def test_a_repository_without_rules_has_all_findings_at_once(forge):
    forge.at("/rules/branches/main").clear()
    result = forge.doctor()
    assert result.exit_code == 1
    assert len(result.output.splitlines()) == 9


WORKFLOW_RULE = {
    "path": ".github/workflows/review.yml",
    "ref": "refs/heads/main",
    "repository_id": 7,
    "sha": "8b24c0d0a1f5bd8b0e3bb6fbc4e9f0b8fcb3c6ff",  # pragma: allowlist secret
}


@pytest.mark.parametrize(
    ("workflow", "code"),
    [
        ({}, 0),
        ({"ref": "refs/heads/other"}, 1),
        ({"repository_id": 8}, 1),
        ({"path": ".github/workflows/ci.yml"}, 1),
    ],
)
def test_a_required_workflow_of_the_main_branch_is_as_good_as_its_check(forge, workflow, code):
    weaker("required_status_checks", required_status_checks=OTHERS)(forge)
    rule = {"do_not_enforce_on_create": False, "workflows": [{**WORKFLOW_RULE, **workflow}]}
    forge.at("/rules/branches/main").append({"type": "workflows", "parameters": rule, **FROM})
    assert forge.doctor().exit_code == code


def test_rules_are_read_from_all_pages_and_rulesets(forge):
    rules = forge.at("/rules/branches/main")
    organization = {"ruleset_source_type": "Organization", "ruleset_source": "o", "ruleset_id": 43}
    rules[:0] = [{"type": "creation", **organization} for _ in range(100)]
    actor = {"actor_id": 1, "actor_type": "OrganizationAdmin", "bypass_mode": "pull_request"}
    forge.responses[f"/repos/{NAME}/rulesets/43"] = {
        **RULESET, "id": 43, "name": "all", "bypass_actors": [actor],
    }  # fmt: skip
    result = forge.doctor()
    assert result.exit_code == 1
    assert result.output.splitlines() == [
        "OrganizationAdmin 1 can bypass the ruleset 'all' (pull_request): remove it from the "
        "bypass list"
    ]


@pytest.mark.parametrize(
    ("status", "headers", "message", "hint"),
    [
        (401, {}, "401 Unauthorized", "set GH_TOKEN to a valid token, or unset it"),
        (403, {}, "403 Forbidden", "set GH_TOKEN to a token of an administrator"),
        (403, {"x-ratelimit-remaining": "0"}, "the limit of requests is reached", "set GH_TOKEN"),
        (404, {}, "404 Not Found", "check the name, and set GH_TOKEN"),
        (301, {"Location": "http://127.0.0.1:1/elsewhere"}, "301 Moved", "pass its new name"),
        (502, {}, "502 Bad Gateway", "try it again later"),
    ],
)
def test_a_response_that_cannot_be_used_is_an_error(forge, status, headers, message, hint):
    forge.statuses[f"/repos/{NAME}/actions/permissions/workflow"] = status
    forge.headers = headers
    result = forge.doctor()
    assert result.exit_code == 2
    assert message in result.output
    assert f"hint: {hint}" in result.output or hint in result.output
    assert TOKEN not in result.output


def test_a_response_of_another_form_is_an_error(forge):
    forge.at("/rules/branches/main")[0] = {"type": "deletion"}
    result = forge.doctor()
    assert result.exit_code == 2
    assert "rules/branches/main: ruleset_id: Field required" in result.output
    forge.responses[f"/repos/{NAME}"] = "<html>"
    assert "the response is not JSON" in forge.doctor().output


def test_an_unreachable_forge_is_an_error(forge):
    forge.shutdown()
    forge.server_close()
    result = forge.doctor()
    assert result.exit_code == 2
    assert "Connection refused" in result.output
    assert TOKEN not in result.output


def test_the_token_is_sent_only_by_https():
    arguments = ["doctor", "--forge", NAME, "--api-url", "http://forge.example"]
    result = CliRunner().invoke(app, arguments, env={"GH_TOKEN": TOKEN})
    assert result.exit_code == 2
    assert "http://forge.example is not an https address" in result.output


def test_a_login_in_the_address_is_refused_and_not_shown():
    arguments = ["doctor", "--forge", NAME, "--api-url", f"https://me:{TOKEN}@127.0.0.1:1"]
    result = CliRunner().invoke(app, arguments, env={"GH_TOKEN": ""})
    assert result.exit_code == 2
    assert "the address of the API contains a login" in result.output
    assert TOKEN not in result.output


def test_what_is_public_is_read_without_a_token(forge, monkeypatch):
    monkeypatch.delenv("GH_TOKEN")
    assert forge.doctor().exit_code == 0
    assert {token for _, token in forge.seen} == {None}


@pytest.mark.parametrize("name", ["connectors", "a/b/c", "a/b?x=1", "../x"])
def test_an_invalid_name_is_an_error(forge, name):
    assert forge.doctor(name).exit_code == 2
    assert forge.seen == []


def test_the_required_check_is_a_job_of_the_workflow_that_the_target_branch_defines():
    workflow = YAML(typ="safe").load((ROOT / WORKFLOW).read_text())
    (job,) = workflow["jobs"].values()
    base, branch = "github.event.pull_request.base.ref", "github.event.repository.default_branch"
    assert job["name"] == f"${{{{ {base} == {branch} && '{CHECK}' || '{CHECK} of a branch' }}}}"
    assert set(workflow["on"]) == {"pull_request_target"}
    (checkout,) = (
        step for step in workflow["jobs"]["review"]["steps"]
        if step.get("uses", "").startswith("actions/checkout@")
    )  # fmt: skip
    assert set(checkout["with"]) == {"fetch-depth", "persist-credentials"}
