# SPDX-License-Identifier: Apache-2.0
"""Tests that secrets are visible only on explicit request."""

from __future__ import annotations

import copy
import logging
import pickle
from pathlib import Path
from typing import Any

import pytest

from connectors_core.engine.state import encode_document
from connectors_core.errors import InvalidOptionError, UnsupportedError
from connectors_core.secrets import MASK, Secret, mask_text, mask_url, masked, revealed


def test_no_way_of_printing_a_secret_reveals_it(caplog: pytest.LogCaptureFixture) -> None:
    secret = Secret("hunter2")
    shown = [str(secret), repr(secret), f"{secret}", f"{secret!r:>40}"]
    shown += [format(secret, "^30"), str([secret]), str({"a": secret})]
    logging.getLogger(__name__).warning("using %s", secret)
    assert all("hunter2" not in text for text in [*shown, caplog.text])
    assert secret.reveal() == "hunter2"


def test_a_pickled_secret_keeps_its_value() -> None:
    secret = Secret("hunter2")
    assert pickle.loads(pickle.dumps(secret)).reveal() == "hunter2"
    assert copy.deepcopy(secret) == secret


def test_secrets_compare_by_value_and_never_equal_their_text() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a"), Secret(Secret("a"))}) == 1
    assert not Secret("")


def test_a_reference_is_read_at_each_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = pickle.loads(pickle.dumps(Secret("user:${env:PW}/${file:%s}" % (tmp_path / "pw"))))
    with pytest.raises(InvalidOptionError, match="environment variable PW"):
        secret.reveal()
    monkeypatch.setenv("PW", "one")
    with pytest.raises(InvalidOptionError, match="pw"):
        secret.reveal()
    (tmp_path / "pw").write_text("two\n")
    assert (secret.reveal(), secret.varies) == ("user:one/two", True)
    monkeypatch.setenv("PW", "${env:PATH}")
    assert secret.reveal() == "user:${env:PATH}/two", "what a reference names is plain text"
    assert "one" not in repr(secret)


def test_a_supplied_secret_is_asked_for_at_each_use() -> None:
    texts = iter(["one", "two"])
    secret = Secret(Secret(lambda: next(texts)))
    assert [secret.reveal(), secret.reveal()] == ["one", "two"]
    assert secret.varies
    assert secret == Secret(secret)
    assert len({secret, Secret(secret)}) == 1
    with pytest.raises(InvalidOptionError, match="returns no text"):
        Secret(lambda: None).reveal()  # type: ignore[arg-type,return-value]


def test_a_plain_secret_has_no_references() -> None:
    secret = pickle.loads(pickle.dumps(Secret.plain("${env:PW}")))
    assert (secret.reveal(), Secret(secret).reveal()) == ("${env:PW}",) * 2
    assert not secret.varies
    assert secret != Secret("${env:PW}")


@pytest.mark.parametrize("value", [None, 7, b"bytes", ["a"]])
def test_nothing_else_is_a_secret(value: Any) -> None:
    with pytest.raises(TypeError, match="a function that returns the text"):
        Secret(value)


def test_the_options_of_a_client_are_revealed_at_any_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", "one")
    options = {"key": Secret("${env:PW}"), "more": {"token": "${env:PW}", "size": 3}, "no": None}
    assert revealed(options) == {"key": "one", "more": {"token": "one", "size": 3}, "no": None}


def test_a_secret_cannot_be_written_into_a_document() -> None:
    with pytest.raises(UnsupportedError):
        encode_document("plan", {"password": Secret("hunter2")})


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://user:pa:ss@host:9200/i", f"https://{MASK}@host:9200/i"),
        ("https://token@host/", f"https://{MASK}@host/"),
        ("kafka://a@b:c@host", f"kafka://{MASK}@host"),
        ("https://host/?token=abc&x=1", f"https://host/?token={MASK}&x=1"),
        ("https://host/?X-Amz-Signature=abc", f"https://host/?X-Amz-Signature={MASK}"),
        ("jdbc:pg://host/db;password=abc", f"jdbc:pg://host/db;password={MASK}"),
        ("abfss://box@account.dfs.core.windows.net/p",) * 2,
        ("s3://bucket/a@b/key",) * 2,
        ("/plain/path@x",) * 2,
    ],
)
def test_urls_lose_only_their_user_and_secret_parameters(url: str, shown: str) -> None:
    assert mask_url(url) == shown


def test_secrets_in_all_urls_within_a_text_are_masked() -> None:
    text = mask_text("tried 'http://a:b@x/' and http://c:d@y/ in vain, mail me@z")
    assert text == f"tried 'http://{MASK}@x/' and http://{MASK}@y/ in vain, mail me@z"


def test_mappings_are_masked_by_declaration_name_type_and_content() -> None:
    given = {
        "pin": "1234",
        "sasl.password": "p",
        "user": Secret("u"),
        "hosts": ["http://a:b@x", "http://y"],
        "nested": {"api_key": "k", "size": 3},
        "token": None,
        "pair": ("http://a:b@x",),
    }
    assert masked(given, {"pin"}) == {
        "pin": MASK,
        "sasl.password": MASK,
        "user": MASK,
        "hosts": [f"http://{MASK}@x", "http://y"],
        "nested": {"api_key": MASK, "size": 3},
        "token": None,
        "pair": (f"http://{MASK}@x",),
    }
