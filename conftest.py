# SPDX-License-Identifier: Apache-2.0
"""Settings for the tests of all packages."""

from hypothesis import settings

# How long an example takes says nothing on a busy machine.
settings.register_profile("repository", deadline=None)
settings.load_profile("repository")
