# SPDX-License-Identifier: Apache-2.0
"""Broken serializers, each with the case that must detect it. See `broken_units`."""

from __future__ import annotations

import base64
import json
import pickle
import random
from dataclasses import replace

from connectors_core.errors import StateCorruptedError, StateVersionError
from connectors_core.serialization import JsonDataclassSerializer, VersionedSerializer
from connectors_core.testing.directory_sink import StagedFile


class LosesAField(JsonDataclassSerializer):
    def deserialize(self, version, data):
        found = super().deserialize(version, data)
        return replace(found, name="") if isinstance(found, StagedFile) else found


class GivesOtherBytes(JsonDataclassSerializer):
    def serialize(self, obj):
        return super().serialize(obj).replace(b"{", b"{" + b" " * random.randrange(1, 1000))


class StaysAtHome(JsonDataclassSerializer):
    def __reduce__(self):
        raise TypeError("it stays here")


class Pickles(VersionedSerializer):
    version = 1

    def __init__(self, cls):
        self.cls = cls

    def serialize(self, obj):
        return json.dumps({"p": base64.b64encode(pickle.dumps(obj)).decode()}).encode()

    def deserialize(self, version, data):
        if version > self.version:
            raise StateVersionError("newer", expected=str(self.version), found=str(version))
        try:
            found = pickle.loads(base64.b64decode(json.loads(data)["p"], validate=True))
        except Exception as error:
            raise StateCorruptedError("garbled", found=str(error)) from error
        if not isinstance(found, self.cls):
            raise StateCorruptedError("something else")
        return found


class ReadsNewerOnes(JsonDataclassSerializer):
    def deserialize(self, version, data):
        return super().deserialize(min(version, self.version), data)


class NamesNoVersion(JsonDataclassSerializer):
    def deserialize(self, version, data):
        if version > self.version:
            raise StateVersionError("stored by a newer release")
        return super().deserialize(version, data)


class RaisesWhatItLikes(JsonDataclassSerializer):
    def deserialize(self, version, data):
        try:
            return super().deserialize(version, data)
        except StateCorruptedError as error:
            raise KeyError("staged") from error


class TakesWhatFollows(JsonDataclassSerializer):
    def deserialize(self, version, data):
        return super().deserialize(version, data.rstrip(b"\0"))


class CountsFromZero(JsonDataclassSerializer):
    def __init__(self, cls):
        super().__init__(cls, version=0)


class ForgotItsPast(JsonDataclassSerializer):
    def __init__(self, cls):
        super().__init__(cls, version=2)


class HasNoFile(JsonDataclassSerializer):
    pass


SERIALIZERS = {
    LosesAField: "test_objects_come_back_as_they_were",
    GivesOtherBytes: "test_the_same_object_gives_the_same_bytes",
    StaysAtHome: "test_a_serializer_survives_pickling",
    Pickles: "test_nothing_stored_is_a_pickle",
    ReadsNewerOnes: "test_a_newer_version_is_refused",
    NamesNoVersion: "test_a_newer_version_is_refused",
    RaisesWhatItLikes: "test_bytes_that_were_cut_off_are_refused",
    TakesWhatFollows: "test_bytes_of_something_else_are_refused",
    CountsFromZero: "test_the_version_is_stored_with_the_object",
    ForgotItsPast: "test_what_earlier_releases_stored_is_read",
    HasNoFile: "test_the_present_version_has_a_file",
}
