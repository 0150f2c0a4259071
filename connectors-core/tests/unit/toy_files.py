# SPDX-License-Identifier: Apache-2.0
"""Rows in an Arrow file that a test can remove: the external system of the toy tables."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from toy_disk import available

from connectors_core.errors import RetryableError
from connectors_core.secrets import Secret

SECRET = "toy-4711"  # pragma: allowlist secret


@dataclass
class FileReader:
    """The base of the functions that read the file."""

    path: str
    columns: list[str]
    password: Secret = field(default_factory=lambda: Secret(SECRET))

    def read(self):
        available()
        try:
            with pa.ipc.open_file(self.path) as file:
                return file.read_all()
        except OSError as error:
            raise RetryableError("the file is away") from error


class FileContext:
    """The file, and the tables that read it. A base of external contexts."""

    def __init__(self, folder: Path, table: Any) -> None:
        self.path = folder / "rows.arrow"
        self.table = table

    def create_table(self, options):
        return self.table(str(self.path), dict(options))

    def write(self, rows):
        new = self.path.with_suffix(".new")
        with pa.ipc.new_file(str(new), rows.schema) as writer:
            writer.write_table(rows)
        os.replace(new, self.path)

    @contextlib.contextmanager
    def away(self):
        hidden = self.path.with_suffix(".away")
        os.rename(self.path, hidden)
        yield
        os.rename(hidden, self.path)

    def secrets(self):
        return [SECRET]
