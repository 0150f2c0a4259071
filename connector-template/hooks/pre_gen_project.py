# SPDX-License-Identifier: Apache-2.0
"""Rejects answers from which no working project can be generated."""

import re
import sys

NAME = {{cookiecutter.name | tojson}}  # noqa: F821
DESCRIPTION = {{cookiecutter.description | tojson}}  # noqa: F821
OWNER = {{cookiecutter.owner | tojson}}  # noqa: F821
SOURCE = "{{ cookiecutter.source }}" == "True"
SINK = "{{ cookiecutter.sink }}" == "True"
TOPOLOGIES = "{{ cookiecutter.topologies }}" == "True"
LOOKUP = "{{ cookiecutter.lookup }}" == "True"
TABLE = "{{ cookiecutter.table }}" == "True"
TWO_PHASE = "{{ cookiecutter.sink_kind }}" == "two-phase"
COMPACTION = "{{ cookiecutter.compaction }}" == "True"
CATALOG = "{{ cookiecutter.catalog }}" == "True"


def problem() -> str | None:
    """Return the first problem in the answers, as a sentence."""
    if NAME.startswith("connector"):
        return f"name: the template adds the prefix 'connector-'; leave it out of {NAME!r}."
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", NAME):
        return f"name: expected lower-case words joined by '-', such as pulsar, found {NAME!r}."
    if len(NAME) > 20:
        return f"name: expected 20 characters at most, found {len(NAME)}."
    if not DESCRIPTION.strip() or re.search(r'["\\\n]', DESCRIPTION):
        return "description: expected one line without quotation marks or backslashes."
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]*", OWNER):
        return f"owner: expected the name of a GitHub organization, found {OWNER!r}."
    if not (SOURCE or SINK or LOOKUP):
        return "source, sink, lookup: a connector needs at least one of the three."
    if TOPOLOGIES and not (SINK and TWO_PHASE):
        return "topologies: only a two-phase sink has steps around its commits."
    if CATALOG and not (TABLE and SOURCE):
        return "catalog: the tables of a catalog need the answers table and source."
    if COMPACTION and not (SINK and TWO_PHASE):
        return "compaction: only a sink of the kind two-phase can merge its outputs."
    return None


if found := problem():
    sys.exit(found)
