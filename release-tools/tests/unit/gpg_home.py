# SPDX-License-Identifier: Apache-2.0
"""A home of gpg with a new secret key."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

ADDRESS = "manager@example.org"


def gpg(home: str, *arguments: str) -> str:
    done = subprocess.run(
        ["gpg", "--batch", *arguments],
        env={**os.environ, "GNUPGHOME": home},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def new_home() -> Iterator[str]:
    """Yield the folder; its path is short, because gpg puts a socket into it."""
    home = tempfile.mkdtemp(prefix="gpg-", dir="/tmp")
    try:
        gpg(home, "--passphrase", "", "--quick-generate-key", ADDRESS, "ed25519", "sign", "never")
        yield home
    finally:
        subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=False)
        shutil.rmtree(home)
