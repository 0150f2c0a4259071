# SPDX-License-Identifier: Apache-2.0
"""Finds words and phrases that `docs/dev/style.md` advises against: `python tools/prose.py`.

It checks pages, docstrings, comments, and messages, those of tests and templates too.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

TELLTALES = {
    r"\banew\b": "again, or recreate, rebuild, regenerate",
    r"\b(?:goes|go|going|went) on\b(?! to\b)": "continue, resume",
    r"\bfor you if\b": "use ... to ...",
    r"\b(?:nobody|somebody|everybody)\b": "no one, someone, everyone, or name who acts",
    r"\b(?:stands?|stood) (?:beside|behind|still)\b": "is next to, follows, is down",
    r"\b(?:what|it|that|which|who|there) (?:stands|stood) in\b": "is in, is stored in",
    r"\bstands? for the time\b": "is",
    r"\bwhat (?:is|was) (?:there|left|gone|lost|staged|stored)\b": "name it: the existing files",
    r"\bwhat (?:comes|came) of\b|\bwhat becomes of\b": "what happens to",
    r"\bdo(?:es)? not do\b\s*[.:;,]": "cannot be used",
    r"\b(?:look|looks|looked|looking) whether\b": "check whether",
    r"\b(?:says|tells|told) (?:how|what) it stands\b": "reports the status",
    r"\bhow (?:it|the \w+) stands\b": "the status",
    r"\b(?:continues?|begins?|starts?|resumes?|restarts?|reads?|seeks?) behind\b": "after",
    r"\bbehind (?:it|them|the (?:last|first|newest|oldest|copy|lookup|message|offset|record|"
    r"page|position|epoch|batch|row|log|end|read|stop)s?)\b": "after",
    r"\b(?:is|are|was|were) (?:let free|looked at|looked after|tried again|asked again)\b":
        "check, inspect, retry",
    r"\b(?:pass|passes|passed|passing) over\b(?! the bytes\b)": "skip, ignore",
    r"\bsign of life\b": "heartbeat",
    r"\btime-outs?\b": "timeout",
    r"\bways? out\b(?! of)": "option, hint",
    # Apart from the attribute of a module in Ivy.
    r"\borganisation\b(?![:=])|\borganis(?:e|es|ed|ing|er|ers)\b": "American spelling",
    r"\b(?:initialis|serialis|recognis|optimis|normalis|summaris)(?:e|es|ed|ing|er|ers|"
    r"ation)\b": "American spelling",
    r"\bto begin with\b": "initial, bootstrap",
    r"\b(?:gave|gives?) a sign\b": "send a heartbeat",
    r"\ba fault of the (?:connector|library)\b": "a bug in the connector",
    r"\bmay be repeated\b": "can be repeated",
}  # fmt: skip
# A phrase can continue on the next line, which may be indented.
PATTERN = re.compile(
    "|".join(f"(?:{each})" for each in TELLTALES).replace(" ", r"\s+"), re.IGNORECASE
)
# They list tell-tale phrases, or repeat what is written elsewhere.
EXEMPT = {
    "docs/dev/style.md",
    "docs/reference/public-api.md",
    "tests/unit/test_prose.py",
    "tools/prose.py",
}
# The syntax of templates, which is also in the names of their files.
PLACEHOLDER = re.compile(r"\{\{.*?\}\}|\{%.*?%\}")


def files() -> list[str]:
    """Return the committed or new files that contain prose, without released changelogs."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return sorted(
        name
        for name in listed.split("\0")
        if PLACEHOLDER.sub("", name).endswith((".md", ".py"))
        and (ROOT / name).is_file()
        and Path(name).name != "CHANGELOG.md"
        and name not in EXEMPT
    )


def passages(name: str) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each piece of prose in a file."""
    text = (ROOT / name).read_text(encoding="utf-8")
    if name.endswith(".py") and not PLACEHOLDER.search(name):
        yield from passages_of_code(text)
    elif PLACEHOLDER.sub("", name).endswith(".md"):
        without_code = re.sub(
            r"^```.*?^```$|^<!-- options of .*?<!-- end -->$",
            lambda match: "\n" * match.group().count("\n"),
            text,
            flags=re.MULTILINE | re.DOTALL,
        )
        yield from paragraphs(without_code)
    else:
        # The code of a template cannot be parsed, so all of it counts as prose.
        text = re.sub(r"^ *#", lambda match: " " * len(match.group()), text, flags=re.MULTILINE)
        yield from paragraphs(text)


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each paragraph."""
    line = 1
    for paragraph in re.split(r"(\n\s*\n)", text):
        yield line, paragraph
        line += paragraph.count("\n")


def passages_of_code(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each string and comment in Python code."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value
    line, comment = 0, ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            line = line or token.start[0]
            comment += token.string.lstrip("#")
        elif token.type != tokenize.NL:
            if comment:
                yield line, comment
            line, comment = 0, ""


def breaches(name: str) -> list[str]:
    """Return the tell-tale phrases of a file, as `path:line: phrase: advice`."""
    found = []
    for line, text in passages(name):
        for match in PATTERN.finditer(text):
            phrase = re.sub(r"\s+", " ", match.group())
            advice = next(
                advice
                for each, advice in TELLTALES.items()
                if re.search(each, phrase, re.IGNORECASE)
            )
            at = line + text.count("\n", 0, match.start())
            found.append(f"{name}:{at}: '{phrase}': {advice}")
    return found


def main() -> int:
    """Print every breach."""
    found = [breach for name in files() for breach in breaches(name)]
    print("\n".join(found) if found else "the prose is plain")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
