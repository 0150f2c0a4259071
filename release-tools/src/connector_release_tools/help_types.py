# SPDX-License-Identifier: Apache-2.0
"""Shows the types of options and arguments as words in help texts."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["with_words"]

_WORDS: Final = {
    "<bool>": "",
    "<int>": "number",
    "<int range>": "number",
    "<float>": "number",
    "<float range>": "number",
    "<str>": "text",
    "<list[str]>": "text",
    "<path>": "path",
}


def with_words(command: Any) -> Any:
    """Let the help of a command and its subcommands show types as words."""
    for parameter in command.params:
        _relabel(parameter)
    make_help = command.get_help_option
    if not isinstance(make_help, _Help):
        command.get_help_option = _Help(make_help)
    for each in getattr(command, "commands", {}).values():
        with_words(each)
    return command


def _relabel(parameter: Any) -> Any:
    if parameter is not None and not isinstance(parameter.display_type, _Words):
        parameter.display_type = _Words(parameter.display_type)
    return parameter


class _Help:
    """Creates the option `--help` of a command."""

    def __init__(self, make: Any) -> None:
        self._make = make

    def __call__(self, ctx: Any) -> Any:
        return _relabel(self._make(ctx))


class _Words:
    """Translates typer's name for the type of one parameter."""

    def __init__(self, shown: Any) -> None:
        self._shown = shown

    def __call__(self, ctx: Any) -> str:
        text = str(self._shown(ctx))
        return _WORDS.get(text, text.strip("<>"))
