# SPDX-License-Identifier: Apache-2.0
"""A package index that is a folder: what installers read from it, and a server on this machine."""
