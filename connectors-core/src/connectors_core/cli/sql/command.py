# SPDX-License-Identifier: Apache-2.0
"""The command `connectors sql`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from connectors_core.cli.sql.formats import Format
from connectors_core.cli.sql.state_folder import state_folder
from connectors_core.cli.state_options import StorageOption
from connectors_core.errors import InvalidOptionError
from connectors_core.options import parse_storage_options

__all__ = ["sql"]

_FAILED: Final = 2
_INTERRUPTED: Final = 130
_STDIN: Final = "-"
_BYTE_ORDER_MARK: Final = "\ufeff"


def sql(
    context: typer.Context,
    *,
    execute: Annotated[
        str | None, typer.Option("--execute", "-e", help="Run these statements, then exit.")
    ] = None,
    file: Annotated[
        str | None,
        typer.Option("--file", "-f", help="Run the statements of a file, then exit; - for stdin."),
    ] = None,
    init: Annotated[
        str | None, typer.Option("--init", "-i", help="Run the statements of a file first.")
    ] = None,
    format_: Annotated[Format, typer.Option("--format", help="Format of results.")] = Format.TABLE,
    max_rows: Annotated[
        int | None,
        typer.Option(min=0, help="Most rows of a result, 0 for all. By default, 1000 of a table."),
    ] = None,
    spark_conf: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Option of Spark, such as spark.master=local[2]."),
    ] = None,
    checkpoint_location: Annotated[
        str | None,
        typer.Option(help="Location of the jobs. By default, a folder of the user's state."),
    ] = None,
    state_location: Annotated[
        str | None,
        typer.Option(help="Location of their plans and decisions, if it is another one."),
    ] = None,
    storage_option: StorageOption = None,
) -> None:
    """Run SQL statements on tables, in a shell, from an argument, or from a file."""
    # Imported late: `connectors --help` needs none of this.
    from connectors_core.cli.sql.running import Script, ShellSettings, run_shell
    from connectors_core.cli.sql.session import ScriptFailedError

    if execute is not None and file is not None:
        raise InvalidOptionError(
            "-e and -f exclude each other", option="file", hint="put all statements into the file"
        )
    if execute is None and file is None and not sys.stdin.isatty():
        file = _STDIN
    script = None if execute is None else Script(text=execute)
    if file is not None:
        script = Script(text=_read(file, "file"), name="<stdin>" if file == _STDIN else file)
    settings = ShellSettings(
        init=None if init is None else Script(text=_read(init, "init"), name=init),
        script=script,
        format=format_,
        max_rows=max_rows,
        spark_conf=dict(_pair(each) for each in spark_conf or ()),
        environment={
            "checkpoint_location": checkpoint_location or state_folder(os.environ) / "checkpoints",
            "state_location": state_location,
            "storage_options": parse_storage_options(storage_option),
        },
    )
    try:
        run_shell(settings)
    except ScriptFailedError as failed:
        if context.find_root().params.get("traceback") and failed.__cause__ is not None:
            raise failed.__cause__ from failed.__cause__.__cause__
        raise typer.Exit(_FAILED) from failed
    except KeyboardInterrupt as interrupted:
        raise typer.Exit(_INTERRUPTED) from interrupted


def _read(file: str, option: str) -> str:
    try:
        text = sys.stdin.read() if file == _STDIN else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidOptionError(
            f"the file {file} cannot be read", found=str(error), option=option
        ) from error
    return text.removeprefix(_BYTE_ORDER_MARK)  # which editors of Windows write


def _pair(given: str) -> tuple[str, str]:
    key, found, value = given.partition("=")
    if not (key and found):
        raise InvalidOptionError(
            "an option of Spark needs a value",
            expected="--spark-conf KEY=VALUE",
            option="spark_conf",
        )
    return key, value
