# SPDX-License-Identifier: Apache-2.0
"""Who must approve a change, and the files of the tracker that follow matrix and maintainers."""
