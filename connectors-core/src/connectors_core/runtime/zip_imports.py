# SPDX-License-Identifier: Apache-2.0
"""Spark's archives on the path of its Python workers are read once, not before every task.

A worker calls ``importlib.invalidate_caches`` for each task, and each finder of an archive then
reads its whole directory anew, in Python (CPython's gh-103200, mended in 3.13). Spark puts its core
jar on the path, with thousands of classes: most of what a small task costs in a warm worker.
"""

from __future__ import annotations

import re
import sys
from pathlib import PurePath
from typing import Final
from zipimport import zipimporter

_OF_SPARK: Final = re.compile(r"pyspark\.zip|py4j-.*\.zip|spark-core_.*\.jar")


def keep_archives_of_spark() -> None:
    """Let Spark's archives stay known in this process: they do not change while it lives. Executor.

    To be called in every task; a finder that an import adds is found by the next one.
    """
    for finder in sys.path_importer_cache.values():
        if isinstance(finder, zipimporter) and _OF_SPARK.fullmatch(PurePath(finder.archive).name):
            vars(finder)["invalidate_caches"] = _nothing


def _nothing() -> None:
    pass
