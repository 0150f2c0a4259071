# SPDX-License-Identifier: Apache-2.0
"""Options, declared once for keywords, validation, documentation, and suggestions."""

from __future__ import annotations

from connectors_core.options.bounds import Bound, at_least, between, not_empty, positive
from connectors_core.options.configuration import Configured, Part, part
from connectors_core.options.declaration import Option, option, option_like
from connectors_core.options.keywords import suggesting_keywords
from connectors_core.options.option_set import OptionSet
from connectors_core.options.parsed_options import Options
from connectors_core.options.recorded_option import RecordedOption
from connectors_core.options.setting import Setting
from connectors_core.options.storage_options import parse_storage_options
from connectors_core.options.types import (
    DURATION,
    JSON_MAP,
    MEMORY_SIZE,
    REGEX,
    OptionType,
    format_duration,
    format_memory_size,
    list_of,
    optional,
    parse_duration,
    parse_memory_size,
)

__all__ = [
    "DURATION",
    "JSON_MAP",
    "MEMORY_SIZE",
    "REGEX",
    "Bound",
    "Configured",
    "Option",
    "OptionSet",
    "OptionType",
    "Options",
    "Part",
    "RecordedOption",
    "Setting",
    "at_least",
    "between",
    "format_duration",
    "format_memory_size",
    "list_of",
    "not_empty",
    "option",
    "option_like",
    "optional",
    "parse_duration",
    "parse_memory_size",
    "parse_storage_options",
    "part",
    "positive",
    "suggesting_keywords",
]
