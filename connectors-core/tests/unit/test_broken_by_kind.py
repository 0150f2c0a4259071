# SPDX-License-Identifier: Apache-2.0
"""Tests that each kind of fault that suites once missed has several broken connectors."""

from __future__ import annotations

import broken_committers
import broken_enumerators
import broken_log
import broken_misfits
import broken_outages
import broken_readers
import broken_responses
import broken_units
import pytest
import test_suites_see_broken_sinks as broken_sinks
import test_suites_see_broken_sources as broken_sources
import test_suites_see_broken_tables as broken_tables
import test_suites_see_broken_vectors as broken_vectors

BY_KIND = {
    "unavailable while it is read": {
        *broken_outages.OUTAGE_READERS,
    },
    "unavailable while it is listed": {
        *broken_outages.OUTAGE_ENUMERATORS,
    },
    "unavailable while it is written": {
        broken_sinks.LosesWhatItCannotWrite,
        broken_sinks.LeavesAFileOpenWhereItCannotWrite,
        broken_sinks.TellsItsTokenInANote,
        broken_sinks.TellsItsTokenInTheCause,
    },
    "unavailable while it is committed": {
        *broken_outages.OUTAGE_COMMITTERS,
    },
    "a commit that is not complete when it returns": {
        broken_committers.CommitsAtItsEnd,
        broken_committers.ShowsAFileBeforeItsRows,
        broken_committers.ShowsItsStagedFile,
    },
    "a place where others write": {
        broken_committers.EmptiesAPlaceThatIsNewToIt,
        broken_committers.SweepsWhatOthersCommitted,
        broken_committers.TakesFilesOfOthersForItsOwn,
    },
    "a response that a commit does not get": {
        *broken_responses.LOST_IN_COMMITS,
    },
    "a response that a writer does not get": {
        *broken_responses.LOST_IN_WRITERS,
    },
    "a first response that is late, while it is read": {
        broken_outages.ConnectsInTheBackground,
        broken_outages.TakesALateResponseForAFailure,
        broken_outages.SkipsWhatIsLate,
    },
    "a first response that is late, while it is written": {
        broken_sinks.DropsWhatIsLate,
        broken_sinks.WritesWhatIsLateTwice,
        broken_sinks.TakesALateConnectionForAnEmptyCommit,
    },
    "a first response that is late, while it is looked up": {
        broken_tables.TakesALateResponseForAMiss,
        broken_tables.KeepsTheMissOfALateResponse,
        broken_tables.GivesRowsOfBothAttempts,
    },
    "a first response that is late, while vectors are searched": {
        broken_vectors.TakesALateResponseForNoMatch,
        broken_vectors.TakesWhatIsInTime,
        broken_vectors.GivesMatchesOfBothAttempts,
    },
    "a value that does not fit its type, looked up": {
        broken_tables.ReadsMisfitsAsNull,
        broken_tables.CutsFractions,
        broken_tables.TakesMisfitsForMisses,
        broken_tables.RetriesMisfits,
    },
    "a value that does not fit its type": {
        broken_misfits.ReadsMisfitsAsNull,
        broken_misfits.ReadsMisfitsInStructsAsNull,
        broken_misfits.DropsMisfitsInLists,
        broken_misfits.CutsFractions,
        broken_misfits.SkipsMisfits,
        broken_misfits.TellsNoColumnOfAMisfit,
    },
    "a value that does not fit its type, in an error of a lookup": {
        broken_tables.NamesTheValueOfAMisfit,
        broken_tables.PassesOnTheErrorOfItsLibrary,
        broken_tables.ShowsTheErrorOfItsLibrary,
    },
    "a value that does not fit its type, in an error": {
        broken_misfits.NamesTheRecordOfAMisfit,
        broken_misfits.NamesTheValueOfAMisfit,
        broken_misfits.ShowsTheMisfitInTheCause,
    },
    "a bad record that is not the last of its split": {
        broken_readers.SkipsTheLineBehindABadOne,
        broken_readers.ForgetsTheSizeOfABadLine,
        broken_readers.MeetsABadRecordAgain,
        broken_log.PlacesABadRecordInItsBatch,
        broken_readers.PlacesABadRecordAtItsBatch,
        broken_readers.PlacesABadRecordSinceItsStart,
    },
    "values that are hard to preserve, written": {
        broken_sinks.WritesDecimalsAsFloats,
        broken_sinks.WritesNoNegativeZero,
        broken_sinks.WritesNormalizedTexts,
    },
    "values that are hard to preserve, read": {
        broken_sources.ReadsNaNAsNothing,
        broken_sources.ReadsNoNegativeZero,
        broken_sources.NormalizesTexts,
    },
    "rows after the end of a bounded source, then a restart": {
        broken_sources.MovesTheEnd,
        broken_log.FindsMoreBehindTheEnd,
        broken_sources.ReadsToTheEndThatItFinds,
    },
    "several splits that wait when some are handed back": {
        broken_enumerators.DropsWhatComesBackLate,
        broken_enumerators.PutsSeveralInPlaceOfWhatWaits,
        broken_enumerators.ForgetsWhatCameBack,
        broken_enumerators.ForgetsWhatCameBackAlone,
    },
    "datasets without names, or with secrets in them": {
        broken_sources.NamesNoDatasets,
        broken_sources.NamesItsToken,
        broken_sources.NamesItsDatasetsAnew,
        broken_sinks.NamesItsToken,
        broken_sinks.NamesADatasetWithoutAName,
    },
    "pause and resume": {
        broken_readers.PausesNothing,
        broken_readers.ResumesNothing,
        broken_readers.DropsWhatIsPaused,
        broken_readers.BeginsAPausedSplitAgain,
    },
}
# Each of these connectors is run and fails the intended case.
RUN = {
    *broken_sinks.BROKEN,
    *broken_sources.BROKEN,
    *broken_tables.BROKEN,
    *broken_units.BROKEN,
    *broken_vectors.BROKEN,
}


@pytest.mark.parametrize("kind", BY_KIND)
def test_each_kind_of_fault_has_at_least_three_broken_connectors(kind):
    assert len(BY_KIND[kind]) >= 3
    assert BY_KIND[kind] <= RUN
