# SPDX-License-Identifier: Apache-2.0
"""Proposals: their files, the rules of votes, and the allowed changes."""
