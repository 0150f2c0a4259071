# SPDX-License-Identifier: Apache-2.0
"""Releases of connectors, in steps: check, update, build, verify, stage, promote.

`check` changes nothing, `update` changes files here, `build` and `verify` work below `build/`,
`stage` writes to an index in between, `promote` to the one that people install from. Each says
what comes next and how to undo it, and may be run again.
"""
