# SPDX-License-Identifier: Apache-2.0
"""A folder in a Hadoop file system, through the JVM: supports every URL that Spark does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from connectors_core.spark.internals.sessions import java_session, jvm_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class HadoopFolder:
    """A folder that may not exist.

    Args:
        spark: A classic session.
        url: The folder.
    """

    def __init__(self, spark: SparkSession, url: str) -> None:
        jvm = jvm_of(spark)
        # Looked up once, since py4j queries the JVM for every part of a dotted name.
        self._new_path: Any = jvm.org.apache.hadoop.fs.Path
        self._to_paths: Any = jvm.org.apache.hadoop.fs.FileUtil.stat2Paths
        self._to_text: Any = jvm.org.apache.commons.io.IOUtils.toString
        self._show: Any = jvm.scala.runtime.ScalaRunTime.stringOf
        self._root = self._new_path(url)
        configuration = java_session(spark).sessionState().newHadoopConf()
        self._files = self._root.getFileSystem(configuration)

    def exists(self, name: str) -> bool:
        """Return whether a file or folder of that name exists."""
        return bool(self._files.exists(self._path(name)))

    def read(self, name: str) -> str | None:
        """Return the text of a file, None if it does not exist."""
        from py4j.protocol import Py4JJavaError

        try:
            stream = self._files.open(self._path(name))
        except Py4JJavaError as error:
            if _is_missing(error):
                return None
            raise
        try:
            return str(self._to_text(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, content: bytes) -> None:
        """Write a file, and replace an existing one."""
        stream = self._files.create(self._path(name), True)
        try:
            stream.write(bytearray(content))
        finally:
            stream.close()

    def rename(self, name: str, to: str) -> None:
        """Rename a file, unless the new name exists."""
        self._files.rename(self._path(name), self._path(to))

    def listing(self, name: str) -> str:
        """Return the paths in a folder as one text, empty if it does not exist.

        One text, because a py4j call for each path would take longer than a micro-batch.
        """
        from py4j.protocol import Py4JJavaError

        try:
            statuses = self._files.listStatus(self._path(name))
        except Py4JJavaError as error:
            if _is_missing(error):
                return ""
            raise
        return str(self._show(self._to_paths(statuses)))

    def _path(self, name: str) -> Any:
        return self._new_path(self._root, name)


def _is_missing(error: Any) -> bool:
    kind = error.java_exception.getClass().getSimpleName()
    return kind in ("FileNotFoundException", "NoSuchFileException")
