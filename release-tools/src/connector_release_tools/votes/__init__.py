# SPDX-License-Identifier: Apache-2.0
"""Votes: who may cast them, what shows that they did, and how they are counted."""
