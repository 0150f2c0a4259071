# SPDX-License-Identifier: Apache-2.0
"""The settings that a pull request must not be able to evade, as GitHub's REST API tells them.

FLIP-PROCESS.md lists them, and says what each one prevents. Only rulesets are read: the older
branch protection has no public endpoint that says who may bypass it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field

from connector_release_tools.errors import ForgeError
from connector_release_tools.forge.client import Client
from connector_release_tools.yaml_text import validated

__all__ = ["CHECK", "WORKFLOW", "Finding", "Repository", "Settings"]

Model = TypeVar("Model", bound=BaseModel)

WORKFLOW: Final = ".github/workflows/review.yml"
# The index trusts any workflow that runs in this environment.
_RELEASE: Final = "release"
CHECK: Final = "approvals"
# The app of GitHub Actions. Without it, anyone with write access can report the check.
_ACTIONS_APP: Final = 15368


@dataclass(frozen=True)
class Finding:
    """A setting that protects less than it must.

    Attributes:
        what: The setting.
        hint: What to set.
    """

    what: str
    hint: str


# Whether a setting is right, what is wrong otherwise, and what to set.
_Required = tuple[bool, str, str]


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Repository(_Part):
    """A repository.

    Attributes:
        id: Its number.
        default_branch: Its main branch.
    """

    id: int
    default_branch: str


class _Check(_Part):
    context: str
    integration_id: int | None = None


class _Workflow(_Part):
    path: str
    ref: str | None = None
    repository_id: int


class _Parameters(_Part):
    """The parameters of the rules that matter here; each rule has some of them."""

    required_approving_review_count: int = 0
    dismiss_stale_reviews_on_push: bool = False
    require_code_owner_review: bool = False
    require_last_push_approval: bool = False
    strict_required_status_checks_policy: bool = False
    required_status_checks: tuple[_Check, ...] = ()
    workflows: tuple[_Workflow, ...] = ()


class _Rule(_Part):
    type: str
    ruleset_id: int
    parameters: _Parameters = Field(default=_Parameters())


class _Actor(_Part):
    actor_id: int | None = None
    actor_type: str
    bypass_mode: str


class _Ruleset(_Part):
    name: str
    bypass_actors: tuple[_Actor, ...] | None = None


class _Permissions(_Part):
    default_workflow_permissions: Literal["read", "write"]
    can_approve_pull_request_reviews: bool


class _Protection(_Part):
    type: str


class _Environment(_Part):
    name: str
    protection_rules: tuple[_Protection, ...] = ()


class _Environments(_Part):
    environments: tuple[_Environment, ...]


class _Branch(_Part):
    name: str
    type: str = "branch"


class _Branches(_Part):
    branch_policies: tuple[_Branch, ...]


class _OwnerError(_Part):
    line: int
    kind: str


class _OwnerErrors(_Part):
    errors: tuple[_OwnerError, ...]


@dataclass(frozen=True)
class Settings:
    """The settings of a repository.

    Attributes:
        repository: The repository.
        rules: The active rules of its default branch.
        rulesets: The rulesets that these rules are from.
        permissions: What its workflows may do by default.
        owner_errors: The errors in CODEOWNERS.
        release: The environment that publishes; None if it does not exist.
        release_branches: The branches and tags that it is limited to; none if it is not limited.
    """

    repository: Repository
    rules: tuple[_Rule, ...]
    rulesets: tuple[_Ruleset, ...]
    permissions: _Permissions
    owner_errors: tuple[_OwnerError, ...]
    release: _Environment | None
    release_branches: tuple[_Branch, ...]

    @classmethod
    def read(cls, client: Client, name: str) -> Settings:
        """Read the settings of a repository.

        Args:
            client: Reads the API. Its token needs the permission to administrate the repository.
            name: The name of the repository, as OWNER/NAME.

        Raises:
            ForgeError: A setting cannot be read, or a response has another form.
        """
        root = f"repos/{name}"
        repository = _as(Repository, client.get(root), root)
        path = f"{root}/rules/branches/{quote(repository.default_branch, safe='')}"
        rules = tuple(_as(_Rule, each, path) for each in client.pages(path))
        paths = [f"{root}/rulesets/{oid}" for oid in sorted({rule.ruleset_id for rule in rules})]
        permissions = f"{root}/actions/permissions/workflow"
        owners = f"{root}/codeowners/errors"
        path = f"{root}/environments"
        there = _as(_Environments, client.get(f"{path}?per_page=100"), path).environments
        release = next((each for each in there if each.name.lower() == _RELEASE), None)
        is_limited = release and "branch_policy" in {each.type for each in release.protection_rules}
        path = f"{path}/{_RELEASE}/deployment-branch-policies"
        return cls(
            repository,
            rules,
            tuple(_as(_Ruleset, client.get(each), each) for each in paths),
            _as(_Permissions, client.get(permissions), permissions),
            _as(_OwnerErrors, client.get(owners), owners).errors,
            release,
            _as(_Branches, client.get(path), path).branch_policies if is_limited else (),
        )

    def findings(self) -> list[Finding]:
        """Return the settings that protect less than they must."""
        required = (
            *self._branch(), *self._reviews(), *self._judge(), *self._workflows(),
            *self._publication(),
        )  # fmt: skip
        return [
            *(Finding(what, hint) for is_set, what, hint in required if not is_set),
            *self._bypasses(),
            *self._owners(),
        ]

    def _of(self, kind: str) -> Sequence[_Parameters]:
        return [rule.parameters for rule in self.rules if rule.type == kind]

    def _branch(self) -> Iterator[_Required]:
        branch = self.repository.default_branch
        yield (
            bool(self._of("non_fast_forward")),
            f"anyone with write access can rewrite {branch}",
            "block force pushes",
        )
        yield bool(self._of("deletion")), f"{branch} can be deleted", "restrict deletions"
        yield (
            bool(self._of("pull_request")),
            f"{branch} accepts a push without a pull request",
            "require a pull request before merging",
        )

    def _reviews(self) -> Iterator[_Required]:
        rules = self._of("pull_request")
        yield (
            any(each.required_approving_review_count > 0 for each in rules),
            "a pull request needs no approval",
            "require at least one approval",
        )
        yield (
            any(each.dismiss_stale_reviews_on_push for each in rules),
            "an approval remains after another push",
            "dismiss stale approvals when new commits are pushed",
        )
        yield (
            any(each.require_code_owner_review for each in rules),
            "a change of the workflows needs no code owner",
            "require review from code owners",
        )
        yield (
            any(each.require_last_push_approval for each in rules),
            "a person can push to the pull request of another person, and approve it",
            "require approval of the most recent push",
        )

    def _judge(self) -> Iterator[_Required]:
        """Require the result of the workflow in the target branch, for the newest target."""
        rules = self._of("required_status_checks")
        checks = [each for rule in rules for each in rule.required_status_checks]
        ours = [check for check in checks if check.context == CHECK]
        is_workflow = any(map(self._is_ours, self._of("workflows")))
        yield (
            is_workflow or bool(ours),
            f"the check {CHECK!r} of {WORKFLOW} is not required",
            f"require the status check {CHECK!r}",
        )
        yield (
            is_workflow or all(check.integration_id == _ACTIONS_APP for check in ours),
            f"any app can report the check {CHECK!r}",
            f"select GitHub Actions as the source of {CHECK!r}",
        )
        yield (
            any(each.strict_required_status_checks_policy for each in rules),
            "a pull request can be merged into a branch that it was not checked with",
            "require branches to be up to date before merging",
        )

    def _is_ours(self, rule: _Parameters) -> bool:
        refs = {None, f"refs/heads/{self.repository.default_branch}"}
        return any(
            each.path == WORKFLOW and each.ref in refs and each.repository_id == self.repository.id
            for each in rule.workflows
        )

    def _workflows(self) -> Iterator[_Required]:
        yield (
            not self.permissions.can_approve_pull_request_reviews,
            "a workflow can approve pull requests",
            "do not allow GitHub Actions to approve pull requests",
        )
        yield (
            self.permissions.default_workflow_permissions == "read",
            "workflows can write by default",
            "set the default permissions of workflows to read",
        )

    def _publication(self) -> Iterator[_Required]:
        if self.release is None:
            what = f"the environment {_RELEASE!r} does not exist, and is created without protection"
            yield False, what, "create it with required reviewers, for the main branch only"
            return
        branch = self.repository.default_branch
        yield (
            any(each.type == "required_reviewers" for each in self.release.protection_rules),
            f"no one needs to approve a job in the environment {_RELEASE!r}",
            "require reviewers",
        )
        yield (
            self.release_branches == (_Branch(name=branch),),
            f"another branch than {branch} can use the environment {_RELEASE!r}",
            f"select {branch} as its only branch",
        )

    def _bypasses(self) -> Iterator[Finding]:
        for ruleset in self.rulesets:
            if ruleset.bypass_actors is None:
                what = f"the ruleset {ruleset.name!r} does not show who can bypass it"
                yield Finding(what, "use the token of a person who can edit the ruleset")
            for actor in ruleset.bypass_actors or ():
                who = actor.actor_type + (f" {actor.actor_id}" if actor.actor_id else "")
                what = f"{who} can bypass the ruleset {ruleset.name!r} ({actor.bypass_mode})"
                yield Finding(what, "remove it from the bypass list")

    def _owners(self) -> Iterator[Finding]:
        for each in self.owner_errors:
            what = f"CODEOWNERS has an error in line {each.line}: {each.kind}"
            yield Finding(what, "correct MAINTAINERS.yaml, and run `release-tools review sync`")


def _as(model: type[Model], document: Any, path: str) -> Model:
    return validated(model, document, name=path, error=ForgeError)
