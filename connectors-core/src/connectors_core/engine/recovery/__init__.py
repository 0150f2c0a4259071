# SPDX-License-Identifier: Apache-2.0
"""Manual operations on the state of a pipeline: back up, restore, rewind, give up an epoch."""
