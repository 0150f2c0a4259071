# SPDX-License-Identifier: Apache-2.0
"""Checks that the workflows run what a change and a release need."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from connector_release_tools.matrix.finding import Finding

__all__ = ["connector", "main"]

_CELL: Final = 'release-tools test "$CONNECTOR" --major "$MAJOR" --spark "$SPARK"'
_CELLS: Final = "release-tools matrix show --format github"


@dataclass(frozen=True)
class _Workflow:
    """What a workflow must have.

    Attributes:
        triggers: The events that start it.
        commands: The commands that it runs in jobs that are never skipped and must pass.
        conditions: The conditions that such jobs may have.
    """

    triggers: frozenset[str]
    commands: tuple[str, ...]
    conditions: frozenset[str] = frozenset()


_WORKFLOWS: Final = {
    ".github/workflows/ci.yml": _Workflow(
        frozenset({"push", "pull_request"}),
        (
            "make test",
            "make docs",
            "git diff --exit-code",
            "release-tools template check --diff",
            "release-tools matrix check",
            "release-tools review sync --dry-run",
            "release-tools flip check",
            'release-tools impact --base "$BASE" --format github',
            _CELLS,
            _CELL,
        ),
        frozenset({"fromJSON(needs.checks.outputs.cells).include[0] != null"}),
    ),
    ".github/workflows/release.yml": _Workflow(
        frozenset({"workflow_dispatch"}),
        (
            *(
                f'release-tools release {step} "$PACKAGE" --major "$MAJOR"'
                for step in ("check", "build", "verify")
            ),
            'release-tools release candidate stage "$RELEASE" --rc "$CANDIDATE" --unsigned',
            'release-tools release vote require "$RELEASE"',
        ),
    ),
    ".github/workflows/review.yml": _Workflow(
        frozenset({"pull_request_target"}),
        (
            'release-tools review check --base "$BASE" --pull-request build/pull.json',
            "release-tools flip check --base HEAD --pull-request build/pull.json",
            "release-tools release vote check --base HEAD --pull-request build/pull.json",
        ),
    ),
    "release-tools/.github/workflows/connector.yml": _Workflow(
        frozenset({"workflow_call"}),
        (
            "make lint",
            'release-tools template check "$CONNECTOR" --diff',
            "release-tools matrix check",
            "release-tools docs check",
            _CELLS,
            _CELL,
        ),
        frozenset({"needs.registration.outputs.registered == 'true'"}),
    ),
}
_COMMAND: Final = re.compile(r"(?<![\w-])(?:git|make|release-tools) [^|\n#)]*")
_SHARED: Final = re.compile(r".*/release-tools/\.github/workflows/connector\.yml@v\d+")


def main(root: Path) -> Iterator[Finding]:
    """Check the workflows of the repository: their triggers, commands, and cells."""
    for place, wanted in _WORKFLOWS.items():
        try:
            found = _read(root / place)
        except ValueError as error:
            yield Finding(place, str(error))
            continue
        if not found:
            yield Finding(place, "it does not exist")
            continue
        on = found.get("on", ())
        if missing := sorted(wanted.triggers - ({on} if isinstance(on, str) else {*on})):
            yield Finding(place, f"it does not start at {', '.join(missing)}")
        jobs = [job for job in _jobs(found) if not _may_be_skipped(job, wanted.conditions)]
        commands = {each: job for job in jobs for each in _commands(job)}
        for command in wanted.commands:
            if command not in commands:
                yield Finding(
                    place,
                    f"no job runs `{command}`",
                    "add the job or the step again, without `if` and `continue-on-error`",
                )
        if _CELL in commands and "fromJSON(needs." not in str(_matrix(commands[_CELL])):
            yield Finding(place, "its cells are not those of the matrix", f"use `{_CELLS}`")


def connector(root: Path, name: str) -> Iterator[Finding]:
    """Check that a connector's workflow calls the shared one with its own name."""
    place = f"{name}/.github/workflows/ci.yml"
    try:
        found = _read(root / place)
    except ValueError as error:
        yield Finding(place, str(error))
        return
    called = [job for job in _jobs(found) if _SHARED.fullmatch(str(job.get("uses", "")))]
    if not called:
        yield Finding(
            place,
            "it does not call a version of the shared workflow connector.yml of release-tools",
            "call it as the template does, such as connector.yml@v1",
        )
    for job in called:
        if (given := job.get("with", {}).get("connector")) != name:
            yield Finding(place, f"it calls the shared workflow for {given}, expected {name}")


def _read(path: Path) -> Mapping[str, Any]:
    """Read a workflow; a missing one is empty."""
    try:
        found = YAML(typ="safe").load(path.read_text(encoding="utf-8")) if path.exists() else {}
    except YAMLError as error:
        raise ValueError(f"it is not valid YAML: {error}") from error
    return found if isinstance(found, Mapping) else {}


def _jobs(workflow: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(workflow.get("jobs", {}).values())


def _may_be_skipped(job: Mapping[str, Any], conditions: Collection[str]) -> bool:
    """Whether a job may not run although it should, or its failure has no effect."""
    return ("if" in job and job["if"] not in conditions) or "continue-on-error" in job


def _matrix(job: Mapping[str, Any]) -> object:
    return job.get("strategy", {}).get("matrix")


def _commands(job: Mapping[str, Any]) -> Iterator[str]:
    for step in job.get("steps", ()):
        if "continue-on-error" not in step:
            yield from (each.strip() for each in _COMMAND.findall(step.get("run") or ""))
