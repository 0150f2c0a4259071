# SPDX-License-Identifier: Apache-2.0
"""Checks the links and code blocks of documents, and builds the site from them."""
