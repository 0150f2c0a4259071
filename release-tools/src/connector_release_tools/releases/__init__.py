# SPDX-License-Identifier: Apache-2.0
"""Releases of connectors, in steps: check, update, build, verify, stage, promote.

`check` changes nothing, `update` changes files here, `build` and `verify` work below `build/`,
`stage` writes to a staging index, and `promote` to the index that people install from. Each step
prints the next step and how to undo it, and can be repeated. `candidate` and `vote` let people
decide whether the verified files are uploaded.
"""
