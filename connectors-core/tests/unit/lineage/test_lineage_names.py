# SPDX-License-Identifier: Apache-2.0
"""Tests how the suites check the names of datasets."""

from __future__ import annotations

import itertools

import pytest

from connectors_core.lineage import LineageDataset, LineageVertexProvider
from connectors_core.testing.lineage_names import assert_named_for_lineage

SECRET = "canary-51e0"  # pragma: allowlist secret


class Named(LineageVertexProvider):
    def __init__(self, *datasets):
        self.datasets = datasets

    def lineage_datasets(self):
        return tuple(
            LineageDataset(namespace=namespace, name=name) for namespace, name in self.datasets
        )


@pytest.mark.parametrize(
    ("namespace", "name"),
    [
        ("file", "/data/in"),
        ("kafka://one:9092", "flights-.*"),
        ("s3://lake", "/"),
        ("abfss://box@account.dfs.core.windows.net", "/late"),
        ("derby:memory:sales", "T"),
        ("arn:aws:glue:eu-west-1:1234", "table/sales/orders"),
        ("bigquery", "project.sales.orders"),
    ],
)
def test_names_as_in_openlineage_are_correct(namespace, name):
    assert_named_for_lineage(lambda: Named((namespace, name)), [SECRET])


@pytest.mark.parametrize(
    ("namespace", "name", "message"),
    [
        ("", "a", "neither a scheme nor a URL"),
        ("/data", "a", "neither a scheme nor a URL"),
        ("S3://lake", "a", "neither a scheme nor a URL"),
        ("s3://", "a", "neither a scheme nor a URL"),
        ("http://host/?a=b", "a", "neither a scheme nor a URL"),
        ("file", "", "an empty name"),
        ("file", "/a ", "spaces"),
        ("kafka://SASL_SSL://one:9092", "a", "neither a scheme nor a URL"),
        ("db2:SAMPLE:password=x;user=y;", "a", "credentials"),
        ("teradata://host", "DATABASE=db,USER=y,PASSWORD = x", "credentials"),
        ("https://host", "/late;access_token=x", "credentials"),
        ("kafka://user@host", "a", "credentials"),
        ("https://host/?token=x", "a", "credentials"),
        ("file", f"/{SECRET}", "credentials"),
    ],
)
def test_other_names_are_wrong_and_show_no_secret(namespace, name, message):
    with pytest.raises(AssertionError, match=message) as error:
        assert_named_for_lineage(lambda: Named(("file", "/good"), (namespace, name)), [SECRET])
    assert SECRET not in str(error.value)


def test_an_empty_secret_is_in_no_name():
    assert_named_for_lineage(lambda: Named(("file", "/data")), [""])


def test_a_part_must_name_its_datasets():
    with pytest.raises(AssertionError, match="object is no LineageVertexProvider"):
        assert_named_for_lineage(object, [])
    with pytest.raises(AssertionError, match="Named names no datasets"):
        assert_named_for_lineage(Named, [])


def test_all_instances_give_the_same_names():
    numbers = itertools.count()
    with pytest.raises(AssertionError, match="name different datasets"):
        assert_named_for_lineage(lambda: Named(("file", f"/{next(numbers)}")), [])
