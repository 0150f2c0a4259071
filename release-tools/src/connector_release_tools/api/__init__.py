# SPDX-License-Identifier: Apache-2.0
"""The public API: the `__all__` of the packages that a pyproject.toml lists, and nothing else."""
