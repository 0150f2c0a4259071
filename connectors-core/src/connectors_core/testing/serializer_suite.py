# SPDX-License-Identifier: Apache-2.0
"""The unit suite of serializers: stored objects stay readable, also by later releases."""

from __future__ import annotations

import base64
import binascii
import contextlib
import copy
import io
import pickle
import pickletools
import random
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest

from connectors_core.errors import ConnectorError, StateVersionError
from connectors_core.serialization import VersionedSerializer, decode_versioned, encode_versioned
from connectors_core.sink import StatefulSink
from connectors_core.testing.cases import case
from connectors_core.testing.context import SinkExternalContext, SourceExternalContext
from connectors_core.testing.enumeration import Enumeration
from connectors_core.testing.sink_unit import SinkUnitTrial
from connectors_core.testing.source_unit import Reading, SourceUnitTrial
from connectors_core.testing.stored_state import (
    WRITE_COMMAND,
    WRITE_OPTION,
    file_of,
    stored_files,
)
from connectors_core.testing.trial import PipelineSuite

_CUTS: Final = 40
_DEADLINE: Final = 20.0
_BASE64: Final = re.compile(rb"[A-Za-z0-9+/]{16,}={0,2}")


@dataclass(frozen=True)
class Kind:
    """One kind of stored objects.

    Attributes:
        name: The name in file names, such as ``split`` or ``writer-state``.
        serializer: The serializer of the kind.
        objects: The objects that the connector created, and its examples.
        example: The object to store in a file: the connector's first example, or the largest
            object.
    """

    name: str
    serializer: VersionedSerializer[Any]
    objects: Sequence[Any]
    example: Any

    def stored(self) -> list[bytes]:
        """Return the objects as bytes."""
        return [self.serializer.serialize(each) for each in self.objects]


class SerializerTestSuite(PipelineSuite):
    """Cases for the serializers of a source or sink.

    Attributes:
        state_folder: The folder next to the connector's tests with the files of `stored_state`.
    """

    state_folder: ClassVar[Path]

    @abstractmethod
    def external_context(self, folder: Path) -> SourceExternalContext | SinkExternalContext:
        """Return a new external system for one case. ``folder`` belongs to the case."""

    def examples(self) -> Mapping[str, Sequence[object]]:
        """Return additional objects by kind.

        Kinds are ``split``, ``enumerator-state``, ``committable``, and ``writer-state``.

        The file of a kind stores the first object. Use one with a value in every field and without
        a path or address of this machine.
        """
        return {}

    @pytest.fixture
    def kinds(self, tmp_path: Path) -> Sequence[Kind]:
        """Return the kinds of objects that the connector stores."""
        folder = tmp_path / "external"
        folder.mkdir()
        print(f"seed: {self.seed}")
        with contextlib.closing(self.external_context(folder)) as context:
            if isinstance(context, SourceExternalContext):
                made = _of_source(SourceUnitTrial(context, self.capabilities, self.seed, _DEADLINE))
            else:
                made = _of_sink(SinkUnitTrial(context, self.seed))
        kinds = []
        for name, (serializer, objects) in made.items():
            examples = list(self.examples().get(name, ()))
            assert objects, f"the connector created no {name}"
            largest = max(objects, key=lambda each: len(serializer.serialize(each)))
            kinds.append(Kind(name, serializer, [*objects, *examples], [*examples, largest][0]))
        return kinds

    # --- Round trips ------------------------------------------------------------------------------

    @case()
    def test_objects_come_back_as_they_were(self, kinds: Sequence[Kind]) -> None:
        for kind in kinds:
            for each, data in zip(kind.objects, kind.stored(), strict=True):
                found = kind.serializer.deserialize(kind.serializer.version, data)
                assert found == each, f"{kind.name}: {found!r} was read instead of {each!r}"

    @case()
    def test_the_same_object_gives_the_same_bytes(self, kinds: Sequence[Kind]) -> None:
        for kind in kinds:
            for each, data in zip(kind.objects, kind.stored(), strict=True):
                again = kind.serializer.serialize(copy.deepcopy(each))
                assert again == data, f"{kind.name}: {again!r} differs from {data!r}"

    @case(after="test_the_same_object_gives_the_same_bytes")
    def test_a_serializer_survives_pickling(self, kinds: Sequence[Kind]) -> None:
        for kind in kinds:
            copied = pickle.loads(pickle.dumps(kind.serializer))
            assert copied.version == kind.serializer.version
            assert copied.serialize(kind.example) == kind.serializer.serialize(kind.example)

    @case()
    def test_nothing_stored_is_a_pickle(self, kinds: Sequence[Kind]) -> None:
        for kind in kinds:
            for data in kind.stored():
                assert not _holds_a_pickle(data), f"{kind.name} is stored as a pickle"

    # --- Versions -------------------------------------------------------------------------------

    @case(after="test_objects_come_back_as_they_were")
    def test_the_version_is_stored_with_the_object(self, kinds: Sequence[Kind]) -> None:
        for kind in kinds:
            version = kind.serializer.version
            assert isinstance(version, int), f"{kind.name}: the version is {version!r}"
            assert version >= 1, f"{kind.name}: the version is {version!r}, the first is 1"
            envelope = encode_versioned(kind.serializer, kind.example)
            assert envelope["v"] == version
            assert decode_versioned(kind.serializer, envelope) == kind.example

    @case()
    def test_a_newer_version_is_refused(self, kinds: Sequence[Kind]) -> None:
        for kind in kinds:
            newer = kind.serializer.version + 41
            data = kind.serializer.serialize(kind.example)
            with pytest.raises(StateVersionError) as refused:
                kind.serializer.deserialize(newer, data)
            numbers = set(map(int, re.findall(r"\d+", str(refused.value))))
            assert newer in numbers, f"{kind.name}: the error does not name the found version"
            assert kind.serializer.version in numbers, (
                f"{kind.name}: the error does not name the supported version"
            )

    # --- Damage ---------------------------------------------------------------------------------

    @case()
    def test_bytes_that_were_cut_off_are_refused(self, kinds: Sequence[Kind]) -> None:
        for kind in kinds:
            for data in kind.stored():
                for length in _spread(len(data)):
                    _assert_refused(kind, data[:length], f"the first {length} of {len(data)} bytes")

    @case(after="test_bytes_that_were_cut_off_are_refused")
    def test_bytes_of_something_else_are_refused(self, kinds: Sequence[Kind]) -> None:
        for kind in kinds:
            data = kind.serializer.serialize(kind.example)
            strangers = [b"", b"\0", b"null", b"[]", b'""', b"1", b"\xff" * 32, b"\0" + data]
            strangers += [pickle.dumps(kind.example), b'{"something": "else"}', data + b"\0"]
            for stranger in strangers:
                _assert_refused(kind, stranger, f"{stranger[:40]!r}")

    @case(after="test_bytes_of_something_else_are_refused")
    def test_garbled_bytes_fail_clearly_if_at_all(self, kinds: Sequence[Kind]) -> None:
        """Changed bytes may still be valid. Then they are an object of the same kind."""
        chance = random.Random(self.seed)
        for kind in kinds:
            for data in kind.stored():
                for _ in range(_CUTS):
                    at = chance.randrange(len(data))
                    garbled = data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
                    try:
                        found = kind.serializer.deserialize(kind.serializer.version, garbled)
                    except ConnectorError:
                        continue
                    assert type(found) is type(kind.example), (
                        f"{kind.name}: {garbled!r} is read as {found!r}"
                    )

    # --- State of earlier releases ----------------------------------------------------------------

    @case()
    def test_the_present_version_has_a_file(
        self, kinds: Sequence[Kind], pytestconfig: pytest.Config
    ) -> None:
        for kind in kinds:
            path = file_of(self.state_folder, kind.name, kind.serializer.version)
            if pytestconfig.getoption(WRITE_OPTION, default=False) and not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(kind.serializer.serialize(kind.example))
            assert path.exists(), f"{path} is missing: write it with {WRITE_COMMAND}, and commit it"

    @case()
    def test_what_earlier_releases_stored_is_read(self, kinds: Sequence[Kind]) -> None:
        by_name = {kind.name: kind for kind in kinds}
        for file in stored_files(self.state_folder):
            kind = by_name.get(file.kind)
            if kind is None:
                continue  # of the other side, because a source and a sink may share the folder
            try:
                found = kind.serializer.deserialize(file.version, file.path.read_bytes())
            except ConnectorError as error:
                raise AssertionError(
                    f"{file.path.name} can no longer be read: raise the version, and migrate"
                ) from error
            assert type(found) is type(kind.example), f"{file.path.name} is read as {found!r}"
            stored = kind.serializer.serialize(found)
            assert kind.serializer.deserialize(kind.serializer.version, stored) == found


_Made = dict[str, tuple[VersionedSerializer[Any], list[Any]]]


def _of_source(trial: SourceUnitTrial) -> _Made:
    """Return splits at several positions, and states at several times."""
    trial.write_splits(3)
    source = trial.source()
    life = Enumeration(source).start()
    states = [life.enumerator.snapshot_state(0)]
    life.request()
    states.append(life.enumerator.snapshot_state(1))
    life.ask_on()
    states.append(life.enumerator.snapshot_state(2))
    life.enumerator.close()
    splits = list(life.splits)
    with Reading(source, trial.deadline) as reading:
        reading.add(splits)
        for _ in reading.steps():
            splits += reading.reader.snapshot_state()
            if reading.count >= trial.rows_written:
                break
    return {
        "split": (source.split_serializer(), splits),
        "enumerator-state": (source.enumerator_state_serializer(), states),
    }


def _of_sink(trial: SinkUnitTrial) -> _Made:
    """Return committables and states of two epochs."""
    sink = trial.sink
    staged = [each for epoch in (1, 2) for each in trial.stage(epoch)]
    made: _Made = {"committable": (sink.committable_serializer(), staged)}
    if isinstance(sink, StatefulSink):
        made["writer-state"] = (sink.writer_state_serializer(), trial.states)
    return made


def _assert_refused(kind: Kind, data: bytes, what: str) -> None:
    try:
        found = kind.serializer.deserialize(kind.serializer.version, data)
    except ConnectorError:
        return
    except Exception as error:
        raise AssertionError(
            f"{kind.name}: {what} raises {error!r}, which is not one of the core's errors"
        ) from error
    raise AssertionError(f"{kind.name}: {what} is read as {found!r}")


def _spread(length: int) -> Iterator[int]:
    """Return some lengths below a length, including the shortest and the longest."""
    step = max(1, length // _CUTS)
    yield from range(0, length, step)
    yield length - 1


def _holds_a_pickle(data: bytes) -> bool:
    pieces = [data]
    for match in _BASE64.finditer(data):
        with contextlib.suppress(binascii.Error):
            pieces.append(base64.b64decode(match[0] + b"=" * (-len(match[0]) % 4)))
    return any(
        _is_pickle(piece[at:])
        for piece in pieces
        for at in (match.start() for match in re.finditer(rb"\x80[\x02-\x05]", piece))
    )


def _is_pickle(data: bytes) -> bool:
    try:
        for opcode, _, _ in pickletools.genops(io.BytesIO(data)):
            if opcode.name == "STOP":
                return True
    except ValueError:
        pass
    return False
