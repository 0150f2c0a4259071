# SPDX-License-Identifier: Apache-2.0
"""A small disk to fill: a `tmpfs` in a mount namespace, which ends with its process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

_VARIABLE: Final = "SOAK_DISK"
_SIZE: Final = "1g"
_MOUNT: Final = f'mount -t tmpfs -o size={_SIZE} soak "$0" && exec '


def enter(folder: Path) -> bool:
    """Run this program again with a small disk as a folder.

    Root mounts it in a separate namespace. Other users are root in a user namespace for the mount,
    and then themselves again.

    Returns:
        Whether the folder is a small disk. It is not if the system allows neither way.
    """
    if _VARIABLE in os.environ:
        return os.environ[_VARIABLE] == str(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        command = ["unshare", "--mount", "sh", "-c", _MOUNT + '"$@"', str(folder)]
    else:
        back = f"unshare --user --map-user={os.geteuid()} --map-group={os.getegid()} "
        root = ["unshare", "--user", "--map-root-user", "--mount"]
        command = [*root, "sh", "-c", f'{_MOUNT}{back}"$@"', str(folder)]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*command, "true"], check=False).returncode
    ):
        return False
    program = [*command, *sys.orig_argv]
    os.execvpe(program[0], program, {**os.environ, _VARIABLE: str(folder)})


def fill(folder: Path) -> None:
    """Fill the free space with a file `filler`, also after other files were removed."""
    size = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
    with (folder / "filler").open("ab") as filler:
        while size >= 4096:
            try:
                os.posix_fallocate(filler.fileno(), filler.seek(0, os.SEEK_END), size)
            except OSError:  # other processes write too
                size //= 2


def clear(folder: Path) -> None:
    """Free the space."""
    (folder / "filler").unlink(missing_ok=True)
