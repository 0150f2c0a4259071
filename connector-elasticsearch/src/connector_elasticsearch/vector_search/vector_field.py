# SPDX-License-Identifier: Apache-2.0
"""The field with the vectors of documents, and the searches for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from connector_elasticsearch.documents.mapping import VECTOR_TYPE
from connectors_core.errors import InvalidOptionError, UnsupportedError

__all__ = ["MOST_CANDIDATES", "VectorField"]

MOST_CANDIDATES: Final = 10_000
"""The maximum number of candidates, and so of documents, in an approximate search."""

_COMPARED: Final = frozenset({"float", "bfloat16", "byte"})
_EXACT: Final = frozenset({"float", "bfloat16"})
# Scripts that compute the scores of an approximate search, by similarity. They need no index.
_SCRIPTS: Final[Mapping[str, str]] = {
    "cosine": "(1.0 + cosineSimilarity(params.vector, {})) / 2.0",
    "dot_product": "(1.0 + dotProduct(params.vector, {})) / 2.0",
    "l2_norm": "double d = l2norm(params.vector, {}); return 1.0 / (1.0 + d * d)",
    "max_inner_product": "double d = dotProduct(params.vector, {}); "
    "return d < 0 ? 1.0 / (1.0 - d) : d + 1.0",
}
_NOT_INDEXED: Final = "cosine"


@dataclass(frozen=True)
class VectorField:
    """A field of the type `dense_vector`; created by :meth:`of`.

    Attributes:
        name: The name of the field.
        dimensions: The number of elements of its vectors, or None if no document has one.
        element_type: The type of the elements.
        similarity: How the server compares vectors.
        is_indexed: Whether the server can search for it without a script.
    """

    name: str
    dimensions: int | None
    element_type: str
    similarity: str
    is_indexed: bool

    @classmethod
    def of(cls, name: str, definitions: Iterable[Mapping[str, Any]]) -> VectorField:
        """Return the field.

        Args:
            name: The name of the field.
            definitions: Its definition in each index.

        Raises:
            InvalidOptionError: A field has another type, or its vectors differ between indices.
            UnsupportedError: Its elements are bits.
        """
        found = {cls._of(name, each) for each in definitions}
        if len(found) != 1:
            raise InvalidOptionError(
                f"the vectors of {name!r} differ between the indices",
                expected="the same dims, element_type, similarity, and index",
                found="; ".join(sorted(map(str, found))) or "no index",
                option="search_column",
                hint="search the indices one by one",
            )
        return found.pop()

    @classmethod
    def _of(cls, name: str, definition: Mapping[str, Any]) -> VectorField:
        kind = definition.get("type", "none")
        if kind != VECTOR_TYPE:
            raise InvalidOptionError(
                f"the field {name!r} has no vectors that the server can compare",
                expected=VECTOR_TYPE,
                found=kind,
                option="search_column",
                hint="create the index with a field of this type; an existing field cannot change",
            )
        element_type = definition.get("element_type", "float")
        if element_type not in _COMPARED:
            raise UnsupportedError(
                f"vectors of {element_type} elements are not supported: {name!r}",
                expected=", ".join(sorted(_COMPARED)),
                found=element_type,
                option="search_column",
            )
        return cls(
            name,
            definition.get("dims"),
            element_type,
            definition.get("similarity", _NOT_INDEXED),
            definition.get("index", True),
        )

    def search(
        self,
        top_k: int,
        *,
        query: Mapping[str, Any] | None,
        exact: bool,
        num_candidates: int | None,
        result_window: int,
    ) -> dict[str, Any]:
        """Return the body of a search, with an empty list in place of the vector.

        Args:
            top_k: The maximum number of documents.
            query: A query for the documents to search, or None for all.
            exact: Whether to compare all documents.
            num_candidates: The number of candidates per shard, or None for the server's default.
            result_window: The maximum number of documents that the indices return.

        Raises:
            InvalidOptionError: The field does not support the search, or the server does not return
                so many documents.
            UnsupportedError: An exact search cannot compare the type of its elements.
        """
        most = result_window if exact else min(result_window, MOST_CANDIDATES)
        if top_k > most:
            raise InvalidOptionError(
                "the server does not return so many documents",
                expected=f"at most {most}",
                found=top_k,
                option="top_k",
                hint="lower it, or raise index.max_result_window of the index"
                if most == result_window
                else "lower it, or set vector-search.exact=true",
            )
        if exact:
            return {"query": {"script_score": self._scored(query)}, "size": top_k}
        if not self.is_indexed:
            raise InvalidOptionError(
                f"an approximate search needs an index of the vectors: {self.name!r}",
                expected="a dense_vector with index: true",
                found="index: false",
                option="search_column",
                hint="set vector-search.exact=true",
            )
        if num_candidates is not None and num_candidates < top_k:
            raise InvalidOptionError(
                "an approximate search needs at least one candidate for each row",
                expected=f"at least top_k={top_k}",
                found=num_candidates,
                option="vector-search.num-candidates",
            )
        # The vector comes first: a query may also have an empty list.
        knn = {"query_vector": [], "field": self.name, "k": top_k}
        if num_candidates is not None:
            knn["num_candidates"] = num_candidates
        if query is not None:
            knn["filter"] = dict(query)
        return {"knn": knn, "size": top_k}

    def _scored(self, query: Mapping[str, Any] | None) -> dict[str, Any]:
        if self.element_type not in _EXACT:
            raise UnsupportedError(
                f"an exact search cannot compare the elements of {self.name!r}",
                expected=", ".join(sorted(_EXACT)),
                found=self.element_type,
                option="vector-search.exact",
                hint="set vector-search.exact=false",
            )
        quoted = "'" + self.name.replace("\\", "\\\\").replace("'", "\\'") + "'"
        source = _SCRIPTS[self.similarity].format(quoted)
        both = [{"exists": {"field": self.name}}, *([] if query is None else [dict(query)])]
        return {
            "script": {"params": {"vector": []}, "source": source},
            "query": {"bool": {"filter": both}},
        }
