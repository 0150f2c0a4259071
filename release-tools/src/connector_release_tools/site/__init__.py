# SPDX-License-Identifier: Apache-2.0
"""The documents: their links and code blocks are checked, and they are linked into one site."""
