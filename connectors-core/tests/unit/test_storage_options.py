# SPDX-License-Identifier: Apache-2.0
"""Tests options of file systems on the command line."""

from __future__ import annotations

import pytest

from connectors_core.errors import InvalidOptionError
from connectors_core.options import parse_storage_options


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, {}),
        (["anon=true", "key=a=b"], {"anon": True, "key": "a=b"}),
        (
            ['client_kwargs={"region_name": "x"}', "empty="],
            {
                "client_kwargs": {"region_name": "x"},
                "empty": "",
            },
        ),
        (["a=1", "a=2"], {"a": 2}),
    ],
)
def test_values_are_json_or_text(given, expected):
    assert parse_storage_options(given) == expected


@pytest.mark.parametrize("given", ["canary", "=canary"])
def test_an_option_without_key_or_value_is_refused_without_showing_it(given):
    with pytest.raises(InvalidOptionError, match="needs a value") as caught:
        parse_storage_options([given])
    assert "canary" not in str(caught.value)
