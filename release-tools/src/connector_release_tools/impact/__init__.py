# SPDX-License-Identifier: Apache-2.0
"""The cells of the matrix that a change affects, derived from files and imports."""
