# SPDX-License-Identifier: Apache-2.0
"""The names of datasets in systems that several connectors use, after OpenLineage's naming spec.

No name contains credentials.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Final

from connectors_core.lineage.graph import LineageDataset

__all__ = ["file_dataset", "jdbc_datasets", "kafka_datasets"]

_URL: Final = re.compile(r"([A-Za-z][\w+.-]+):(?://([^/?#;]*)|(?=/|\Z))(.*)", re.DOTALL)
_CHAIN: Final = re.compile(r"(?:[\w+.-]+(?:://[^:@\[]*)?::)*")  # neither IPv6 nor a password
_WILDCARDS: Final = frozenset("*?[")
_OBJECT_STORES: Final = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "gcs": "gs"}
_CONTAINERS: Final = ("abfs", "wasb")  # there, `container@account` has no user

_JDBC: Final = re.compile(r"(?:jdbc:)?([\w-]+):([^?;(]*)", re.IGNORECASE)
_LOCAL: Final = frozenset({"derby", "duckdb", "h2", "hsqldb", "sqlite"})  # in files or in memory
_SERVER: Final = re.compile(r"(?:[\w-]+:)*//.*", re.DOTALL)
_HOST: Final = r"(?:\[[\da-fA-F:.]+\]|[\w.-]+)"
_HOSTS: Final = re.compile(rf"{_HOST}(?::\d+)?(?:,{_HOST}(?::\d+)?)*")
_SID: Final = re.compile(r"(.+:\d+):(\w+)")  # Oracle's host:port:sid
_INSTANCE: Final = re.compile(r"([^\\]+)\\(\w+)(:\d+)?")  # SQL Server's host\instance:port
_DATABASE: Final = re.compile(r";\s*database(?:name)?\s*=\s*([^;]+)", re.IGNORECASE)
_BRACED: Final = re.compile(r"\{(?:[^}]|\}\})*\}?")  # a value that may contain `;`
_NAME: Final = re.compile(r"[\w$.-]+")
_SYSTEMS: Final = {"postgresql": "postgres"}
_PORTS: Final = {"mysql": 3306, "oracle": 1521, "postgres": 5432}
_DIALECTS: Final = {"mariadb": "mysql", "sqlserver": "tsql"}
_SCHEMA_IS_DATABASE: Final = frozenset({"clickhouse", "mariadb", "mysql"})


def file_dataset(url: str) -> LineageDataset:
    """Return the dataset of a file, a folder, or a pattern: the folder above the first wildcard.

    Args:
        url: A path or a URL, or a chain of them, such as `simplecache::s3://lake/late`.
    """
    last = _CHAIN.sub("", url, count=1)
    found = _URL.fullmatch(last)
    protocol, authority, path = found.groups() if found else ("file", "", last)
    protocol = protocol.lower()
    host = _host(protocol, authority or "", path)
    if authority and not host:
        path = ""
    scheme = _OBJECT_STORES.get(protocol, protocol)
    if protocol in ("file", "local"):
        scheme, path = "file", "/" + path.lstrip("/")
    else:
        path = re.split("[#;]", path)[0]
    if protocol in _OBJECT_STORES:
        path = path.removeprefix("/")
    return LineageDataset(
        namespace=f"{scheme}://{host}" if host else scheme, name=_folder(path) or "/"
    )


def _host(protocol: str, authority: str, path: str) -> str:
    """Return the host, bucket, or container of a URL; nothing if it may be a part of a password."""
    user, _, host = authority.rpartition("@")
    has_password = "@" in path and not path.startswith("/")  # with `?`, `#`, or `;`
    is_host = _HOSTS.fullmatch(host) and not (protocol in _OBJECT_STORES and ":" in host)
    if has_password or not is_host:
        return ""
    is_container = protocol.startswith(_CONTAINERS) and _NAME.fullmatch(user)
    return f"{user}@{host}" if is_container else host


def _folder(path: str) -> str:
    parts = itertools.takewhile(lambda part: not _WILDCARDS & {*part}, path.split("/"))
    return "/".join(parts).rstrip("/") or ("/" if path.startswith("/") else "")


def kafka_datasets(
    bootstrap_servers: Sequence[str], topics: Iterable[str]
) -> tuple[LineageDataset, ...]:
    """Return the datasets of topics. The first bootstrap server names the cluster.

    Args:
        bootstrap_servers: Addresses of brokers.
        topics: The topics, or their pattern.
    """
    server = bootstrap_servers[0].strip().rpartition("://")[2].rpartition("@")[2]
    namespace = f"kafka://{server}"
    return tuple(LineageDataset(namespace=namespace, name=each) for each in dict.fromkeys(topics))


def jdbc_datasets(url: str, relation: str) -> tuple[LineageDataset, ...]:
    """Return the datasets of a relation in a database.

    Args:
        url: The address, such as `jdbc:postgresql://host/database`.
        relation: A table, or anything else that follows `FROM`, such as a query in parentheses.

    Returns:
        The dataset of each table; none if the relation cannot be parsed.
    """
    system, namespace, database = _database(url)
    names = []
    for table in _tables(relation, _DIALECTS.get(system, system)):
        complete = len(table) > 1 if system in _SCHEMA_IS_DATABASE else len(table) > 2
        names.append(".".join(table if complete or not database else (database, *table)))
    return tuple(LineageDataset(namespace=namespace, name=name) for name in dict.fromkeys(names))


def _database(url: str) -> tuple[str, str, str]:
    """Return the system, the namespace, and the name of a database."""
    found = _JDBC.match(url)
    if found is None:
        return "jdbc", "jdbc", ""
    system = _SYSTEMS.get(found[1].lower(), found[1].lower())
    settings = url[found.end() :]
    if "@" in settings and system != "sqlserver":  # a password may contain `?`, `;`, or `(`
        return system, system, ""
    _, user, place = found[2].rpartition("@")
    if not user and not _SERVER.fullmatch(place):
        return system, f"{system}:{place}" if system in _LOCAL else system, ""
    authority, _, database = place.rpartition("//")[2].partition("/")
    if sid := _SID.fullmatch(authority):
        authority, database = sid.groups()
    if settings.startswith(";") and (setting := _DATABASE.search(_BRACED.sub("", settings))):
        database = setting[1].strip()
    database = re.split("[:,;?]", database)[0]
    if not _NAME.fullmatch(database):
        database = ""
    below = ""
    if instance := _INSTANCE.fullmatch(authority):
        authority, below = f"{instance[1]}{instance[3] or ''}", f"/{instance[2]}"
    if not _HOSTS.fullmatch(authority):  # it may have a password
        return system, system, database
    hosts = authority.lower().split(",")
    if port := _PORTS.get(system):
        hosts = [f"{host}:{port}" if re.fullmatch(_HOST, host) else host for host in hosts]
    return system, f"{system}://{','.join(hosts)}{below}", database


def _tables(relation: str, dialect: str) -> list[tuple[str, ...]]:
    """Return the tables of a relation, each as the parts of its name."""
    from sqlglot import Dialect, exp, parse_one
    from sqlglot.errors import SqlglotError
    from sqlglot.optimizer.scope import traverse_scope

    try:
        scopes = traverse_scope(parse_one(f"FROM {relation}", dialect=Dialect.get(dialect)))
    except SqlglotError:
        return []
    sources = [each for scope in scopes for each in scope.sources.values()]
    tables = [each for each in sources if isinstance(each, exp.Table)]
    names = [tuple(part.name for part in each.parts) for each in tables]
    return [name for name in names if all(name)]
