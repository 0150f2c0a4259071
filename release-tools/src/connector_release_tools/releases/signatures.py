# SPDX-License-Identifier: Apache-2.0
"""Detached signatures, made and verified with the program gpg."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Final

from connector_release_tools.errors import ProgramError, ReleaseError
from connector_release_tools.programs import output
from connector_release_tools.releases.record import RELEASES

__all__ = ["KEYS", "SUFFIX", "sign", "signer"]

GPG: Final = "gpg"
# The public keys of the people who sign releases.
KEYS: Final = f"{RELEASES}/KEYS"
SUFFIX: Final = ".asc"
# gpg also verifies signatures of expired and revoked keys, but does not call them GOODSIG. The last
# field of VALIDSIG is the fingerprint of the primary key.
_VALID: Final = re.compile(
    r"^\[GNUPG:\] GOODSIG .*^\[GNUPG:\] VALIDSIG [^\n]* ([0-9A-F]{40})$", re.MULTILINE | re.DOTALL
)


def sign(path: Path, key: str | None) -> Path:
    """Write the detached signature of a file next to it.

    Args:
        path: The file.
        key: The id, fingerprint, or e-mail address of a secret key; None for gpg's default key.

    Returns:
        The signature, `<file>.asc`.

    Raises:
        ReleaseError: gpg is missing, or cannot sign.
    """
    signature = path.with_name(f"{path.name}{SUFFIX}")
    chosen = () if key is None else ("--local-user", key)
    try:
        output(
            (GPG, "--batch", "--yes", "--armor", *chosen, "--output", signature,
             "--detach-sign", path),
            folder=path.parent,
        )  # fmt: skip
    except ProgramError as error:
        raise ReleaseError(
            f"{path.name} cannot be signed: {error}",
            hint="install GnuPG and create a key with `gpg --quick-generate-key`, choose another "
            "key with --key, or try the step with --unsigned, which no vote accepts",
        ) from error
    return signature


def signer(path: Path, keys: Path) -> str:
    """Return the fingerprint of the key that signed a file.

    Only the listed public keys count, not those of the user.

    Args:
        path: The file; its signature is `<file>.asc`.
        keys: The file with the public keys.

    Raises:
        ReleaseError: gpg or the list of keys is missing, or no listed key signed the file.
    """
    if not keys.is_file():
        raise ReleaseError(
            f"{KEYS} does not exist", hint=f"commit it: gpg --armor --export KEY >> {KEYS}"
        )
    with tempfile.TemporaryDirectory(prefix="gpg-") as home:
        env = {**os.environ, "GNUPGHOME": home}
        try:
            output((GPG, "--batch", "--quiet", "--import", keys), folder=Path(home), env=env)
            said = output(
                (GPG, "--batch", "--status-fd", "1", "--verify",
                 path.with_name(f"{path.name}{SUFFIX}"), path),
                folder=Path(home), env=env,
            )  # fmt: skip
        except ProgramError as error:
            raise ReleaseError(
                f"no key of {KEYS} has signed {path.name}: {error}",
                hint=f"sign it with one of them, or commit the key: gpg --armor --export KEY "
                f">> {KEYS}",
            ) from error
    if (found := _VALID.search(said)) is None:
        raise ReleaseError(
            f"the key that has signed {path.name} is expired or revoked",
            hint=f"extend or replace it, commit it to {KEYS}, and sign again",
        )
    return found[1]
