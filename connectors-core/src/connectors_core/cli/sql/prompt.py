# SPDX-License-Identifier: Apache-2.0
"""The prompt on a terminal: several lines, completion, history, and the jobs below it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any, Final

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer

from connectors_core.cli.sql.completion import Names, candidates
from connectors_core.cli.sql.help_text import COMMANDS
from connectors_core.table.sql.parsing import is_complete

__all__ = ["TerminalPrompt"]

_LOGGER: Final = logging.getLogger(__name__)
_REFRESH_SECONDS: Final = 1.0


class TerminalPrompt:
    """Asks for statements on a terminal.

    Args:
        names: The names for completion.
        history: The former statements.
        database: Returns the current catalog and database.
        jobs: Returns the running jobs in one line, or nothing.
        **terminal: Other settings of prompt_toolkit, such as its input.
    """

    def __init__(
        self,
        names: Names,
        history: History,
        *,
        database: Callable[[], str],
        jobs: Callable[[], str],
        **terminal: Any,
    ) -> None:
        self._database = database
        self._session: PromptSession[str] = PromptSession(
            history=history,
            auto_suggest=AutoSuggestFromHistory(),
            bottom_toolbar=lambda: jobs() or None,
            complete_in_thread=True,
            complete_while_typing=False,
            completer=_StatementCompleter(names),
            enable_history_search=True,
            key_bindings=_keys(),
            lexer=PygmentsLexer(SqlLexer),
            multiline=True,
            prompt_continuation=lambda width, _, wraps: ("" if wraps else "> ").rjust(width),
            refresh_interval=_REFRESH_SECONDS,
            **terminal,
        )
        self._terminal = terminal

    def read(self) -> str:
        """Return statements.

        Raises:
            EOFError: The user leaves.
            KeyboardInterrupt: The user discards the text.
        """
        return self._session.prompt(f"{self._database()}> ")

    def confirm(self, question: str) -> bool:
        """Return whether the user agrees, or has left."""
        asked: PromptSession[str] = PromptSession(**self._terminal)
        try:
            return asked.prompt(f"{question} [y/N] ").strip().lower() in {"y", "yes"}
        except EOFError:
            return True
        except KeyboardInterrupt:
            return False


class _StatementCompleter(Completer):
    def __init__(self, names: Names) -> None:
        self._names = names

    def get_completions(self, document: Document, _: CompleteEvent) -> Iterator[Completion]:
        """Yield the completions at the cursor."""
        at = document.cursor_position
        try:
            found = candidates(document.text[:at], document.text[at:], self._names)
        except Exception:  # such as a connector that cannot be loaded
            _LOGGER.debug("the statement cannot be completed", exc_info=True)
            return
        for each in found:
            yield Completion(
                each.text, each.start - at, display=each.shown, display_meta=each.doc or None
            )


def _keys() -> KeyBindings:
    """Let Enter run what is complete, and otherwise begin another line."""
    keys = KeyBindings()

    @keys.add("enter")
    def enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        text = buffer.text.strip()
        if is_complete(buffer.text) or text.upper() in COMMANDS:
            buffer.validate_and_handle()
        else:
            buffer.newline()

    return keys
