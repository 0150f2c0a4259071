# SPDX-License-Identifier: Apache-2.0
"""Rejects answers from which no working project can be generated.

cookiecutter loads this module from `_extensions` in cookiecutter.json. Unlike a hook that fails, it
ends cookiecutter with one sentence and without a traceback.
"""

import re
from collections.abc import Mapping
from typing import Any

from cookiecutter.exceptions import FailedHookException
from cookiecutter.utils import simple_filter

# The project and the tables of the core use these names, or pytest takes the classes for tests.
RESERVED = {
    *("blackhole", "core", "datagen", "print", "pyspark", "release-tools", "spark", "template"),
    *("test", "testing", "tests"),
}


@simple_filter
def checked(answers: Mapping[str, Any]) -> str:
    """Return an empty text for valid answers.

    Raises:
        FailedHookException: An answer is invalid; cookiecutter prints the message and ends.
    """
    if found := problem(answers):
        raise FailedHookException(found)
    return ""


def problem(answers: Mapping[str, Any]) -> str | None:
    """Return the first problem in the answers, as a sentence."""
    name, owner = answers["name"], answers["owner"]
    two_phase = answers["sink"] and answers["sink_kind"] == "two-phase"
    if name.startswith("connector"):
        return f"name: the template adds the prefix 'connector-'; leave it out of {name!r}."
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        return f"name: expected lower-case words joined by '-', such as pulsar, found {name!r}."
    if len(name) > 20:
        return f"name: expected 20 characters at most, found {len(name)}."
    if name in RESERVED or name.startswith("test-"):
        return f"name: {name!r} is reserved; use the name of the external system, such as pulsar."
    if not answers["description"].strip() or re.search(r'["\\\n]', answers["description"]):
        return "description: expected one line without quotation marks or backslashes."
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]*", owner):
        return f"owner: expected the name of a GitHub organization, found {owner!r}."
    if not (answers["source"] or answers["sink"] or answers["lookup"]):
        return "source, sink, lookup: a connector needs at least one of the three."
    if answers["topologies"] and not two_phase:
        return "topologies: only a two-phase sink has steps around its commits."
    if answers["catalog"] and not (answers["table"] and answers["source"]):
        return "catalog: the tables of a catalog need the answers table and source."
    if answers["compaction"] and not two_phase:
        return "compaction: only a sink of the kind two-phase can merge its outputs."
    if answers["changes"] and not two_phase:
        return "changes: the template has such a sink of the kind two-phase only."
    if answers["changes"] and answers["compaction"]:
        return "changes, compaction: changes of several epochs are not merged, to keep their order."
    return None
