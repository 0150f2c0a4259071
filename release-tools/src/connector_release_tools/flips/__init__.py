# SPDX-License-Identifier: Apache-2.0
"""Proposals: their files, the rules of the vote, what a change may do to them."""
