# SPDX-License-Identifier: Apache-2.0
"""Checks that the workflows run what a change and a release need.

Scripts are compared as a whole: `make test || true` also contains `make test`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from connector_release_tools.matrix.finding import Finding

__all__ = ["connector", "main"]

_ANY: Final = object()
_ALWAYS: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True)
class _Workflow:
    """The requirements of a workflow.

    Attributes:
        triggers: The events that start it, each with its filter.
        scripts: The scripts of its steps, each with all conditions that can skip it: those of the
            step, of its job, and of the jobs that this needs.
        env: The variables that these steps can get, with their values.
    """

    triggers: Mapping[str, object]
    scripts: Mapping[str, frozenset[str]]
    env: Mapping[str, str]


_CELL: Final = 'release-tools test "$CONNECTOR" --major "$MAJOR" --spark "$SPARK"'
_MATRIX: Final = re.compile(r"\$\{\{ fromJSON\(needs\.([\w-]+)\.outputs\.cells\) \}\}")
_OUTPUT: Final = 'echo "cells=$cells" >> "$GITHUB_OUTPUT"'
_IN_MAIN: Final = (
    "${{ !cancelled() && "
    "github.event.pull_request.base.ref == github.event.repository.default_branch }}"
)
_IS_REGISTERED: Final = frozenset({"needs.registration.outputs.registered == 'true'"})
_CHANGES: Final = {"push": {"branches": ["main"]}, "pull_request": None}
_WORKFLOWS: Final = {
    ".github/workflows/ci.yml": _Workflow(
        {**_CHANGES, "schedule": _ANY},
        {
            "make test": _ALWAYS,
            "make docs": _ALWAYS,
            "git diff --exit-code": _ALWAYS,
            "release-tools template check --diff": _ALWAYS,
            "release-tools matrix check": _ALWAYS,
            "release-tools review sync --dry-run": _ALWAYS,
            "release-tools flip check": _ALWAYS,
            'release-tools impact --base "$BASE"\n'
            'cells=$(release-tools impact --base "$BASE" --format github)\n'
            f"{_OUTPUT}": frozenset({"github.event_name != 'schedule'"}),
            f"cells=$(release-tools matrix show --format github)\n{_OUTPUT}": frozenset(
                {"github.event_name == 'schedule'"}
            ),
            _CELL: frozenset({"fromJSON(needs.checks.outputs.cells).include[0] != null"}),
        },
        {
            "BASE": "${{ github.event_name == 'pull_request' && "
            "format('origin/{0}', github.base_ref) || github.event.before }}",
            "CONNECTOR": "${{ matrix.connector }}",
            "MAJOR": "${{ matrix.major }}",
            "SPARK": "${{ matrix.spark }}",
        },
    ),
    ".github/workflows/release.yml": _Workflow(
        {"workflow_dispatch": _ANY},
        {
            **{
                f'release-tools release {step} "$PACKAGE" --major "$MAJOR"': _ALWAYS
                for step in ("check", "build", "verify")
            },
            'release-tools release candidate stage "$RELEASE" --rc "$CANDIDATE" --unsigned': (
                _ALWAYS
            ),
            'release-tools release vote require "$RELEASE" --copy build/packages': frozenset(
                {"inputs.publish"}
            ),
        },
        {"RELEASE": "${{ inputs.release }}", "CANDIDATE": "${{ inputs.candidate }}"},
    ),
    ".github/workflows/review.yml": _Workflow(
        # A pull request with another base has another check, so its change is a trigger.
        {"pull_request_target": {"types": ["opened", "synchronize", "reopened", "edited"]}},
        {
            'release-tools review check --base "$BASE" --pull-request build/pull.json': _ALWAYS,
            **{
                f"release-tools {checked} check --base HEAD --pull-request build/pull.json": (
                    frozenset({_IN_MAIN})
                )
                for checked in ("flip", "release vote")
            },
        },
        {"BASE": "origin/${{ github.event.pull_request.base.ref }}"},
    ),
    "release-tools/.github/workflows/connector.yml": _Workflow(
        {"workflow_call": _ANY},
        dict.fromkeys(
            (
                "make lint",
                'release-tools template check "$CONNECTOR" --diff',
                "release-tools matrix check",
                "release-tools docs check",
                "cells=$(release-tools matrix show --format github |\n"
                "  jq --compact-output '{include: [.include[] | "
                "select(.connector == env.CONNECTOR)]}')\n"
                f"{_OUTPUT}",
                _CELL,
            ),
            _IS_REGISTERED,
        ),
        {
            "CONNECTOR": "${{ inputs.connector }}",
            "MAJOR": "${{ matrix.major }}",
            "SPARK": "${{ matrix.spark }}",
        },
    ),
}
# What lets a script fail without an effect, or run in another shell, folder, or container.
_STEP: Final = frozenset({"continue-on-error", "shell", "working-directory"})
_JOB: Final = frozenset({"continue-on-error", "defaults", "container"})
_SHARED: Final = re.compile(r".*/release-tools/\.github/workflows/connector\.yml@v\d+")


def main(root: Path) -> Iterator[Finding]:
    """Check the workflows of the repository: their triggers, scripts, and cells."""
    for place, wanted in _WORKFLOWS.items():
        try:
            found = _read(root / place)
        except ValueError as error:
            yield Finding(place, str(error))
            continue
        if not found:
            yield Finding(place, "it does not exist")
            continue
        yield from _triggers(place, found, wanted.triggers)
        scripts = {
            script: job
            for name, job in _jobs(found).items()
            for script in _scripts(found, name, wanted)
        }
        for script in wanted.scripts:
            if script not in scripts:
                yield Finding(
                    place,
                    f"no job runs `{script.splitlines()[0]}`",
                    "add the step again, without another line, `if`, `continue-on-error`, `shell`, "
                    "or `env`",
                )
        if _CELL in scripts and not _has_all_cells(found, scripts[_CELL]):
            yield Finding(
                place,
                "its cells are not those of the matrix",
                "use the output `cells` of the job that finds them",
            )


def connector(root: Path, name: str) -> Iterator[Finding]:
    """Check that a connector's workflow calls the shared one with its own name."""
    place = f"{name}/.github/workflows/ci.yml"
    try:
        found = _read(root / place)
    except ValueError as error:
        yield Finding(place, str(error))
        return
    jobs = _jobs(found)
    called = {key: job for key, job in jobs.items() if _SHARED.fullmatch(str(job.get("uses", "")))}
    if not called:
        yield Finding(
            place,
            "it does not call a version of the shared workflow connector.yml of release-tools",
            "call it as the template does, such as connector.yml@v1",
        )
        return
    yield from _triggers(place, found, {"push": _ANY, "pull_request": None})
    for key, job in called.items():
        if (given := _mapping(job.get("with")).get("connector")) != name:
            yield Finding(place, f"it calls the shared workflow for {given}, expected {name}")
        if conditions := _conditions(jobs, key):
            yield Finding(place, f"it can skip the shared workflow: {', '.join(conditions)}")


def _read(path: Path) -> Mapping[str, Any]:
    """Read a workflow; a missing one is empty."""
    try:
        return _mapping(
            YAML(typ="safe").load(path.read_text(encoding="utf-8")) if path.exists() else None
        )
    except YAMLError as error:
        raise ValueError(f"it is not valid YAML: {error}") from error


def _mapping(found: object) -> Mapping[str, Any]:
    return found if isinstance(found, Mapping) else {}


def _jobs(workflow: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {name: _mapping(job) for name, job in _mapping(workflow.get("jobs")).items()}


def _triggers(
    place: str, workflow: Mapping[str, Any], wanted: Mapping[str, object]
) -> Iterator[Finding]:
    on = workflow.get("on")
    started = on if isinstance(on, Mapping) else dict.fromkeys(_listed(on))
    for event, filtered in wanted.items():
        if event not in started:
            yield Finding(place, f"it does not start at {event}")
        elif filtered not in (_ANY, started[event]):
            yield Finding(place, f"{event} has the filter {started[event]}, expected {filtered}")


def _scripts(workflow: Mapping[str, Any], name: str, wanted: _Workflow) -> Iterator[str]:
    """Yield the wanted scripts that a job runs as it should."""
    jobs = _jobs(workflow)
    job = jobs[name]
    if "defaults" in workflow or _JOB & {*job}:
        return
    above = _conditions(jobs, name)
    for step in map(_mapping, job.get("steps") or ()):
        script = str(step.get("run", "")).strip()
        own = {str(step["if"])} if "if" in step else set()
        env = {key for level in (workflow, job, step) for key in _mapping(level.get("env")).items()}
        if (
            wanted.scripts.get(script) == above | own
            and not _STEP & {*step}
            and env <= {*wanted.env.items()}
            and ("strategy" not in job or script == _CELL)
        ):
            yield script


def _conditions(jobs: Mapping[str, Mapping[str, Any]], name: str) -> frozenset[str]:
    """Return the conditions of a job and of all that it needs: one that is skipped skips it."""
    conditions, left, seen = set[str](), [name], set[str]()
    while left:
        if (each := left.pop()) not in seen:
            seen.add(each)
            job = jobs.get(each, {})
            conditions |= {str(job["if"])} if "if" in job else set()
            left += _listed(job.get("needs"))
    return frozenset(conditions)


def _has_all_cells(workflow: Mapping[str, Any], job: Mapping[str, Any]) -> bool:
    """Return whether the matrix of a job is what the steps of another job write."""
    match = _MATRIX.fullmatch(str(_mapping(job.get("strategy")).get("matrix")))
    source = _jobs(workflow).get(match[1], {}) if match else {}
    written = [
        f"steps.{step.get('id')}.outputs.cells"
        for step in map(_mapping, source.get("steps") or ())
        if _OUTPUT in str(step.get("run"))
    ]
    wanted = f"${{{{ {' || '.join(written)} }}}}"
    return bool(written) and _mapping(source.get("outputs")).get("cells") == wanted


def _listed(found: object) -> list[str]:
    return [found] if isinstance(found, str) else [*found] if isinstance(found, list) else []
