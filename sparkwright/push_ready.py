"""What preflight asks of the laptop's own files for an air gap; nothing for upstream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkwright.errors import SparkwrightError
from sparkwright.sources import source_of
from sparkwright.sources_apt import apt_files


def unready(data: Mapping[str, Any]) -> list[str]:
    """Why the bundle or the mirror cannot be used, a line each."""
    source = source_of(data)
    if not source.plain:
        return []
    found: list[str] = []
    if source.directory:
        from sparkwright.push_plan import problems_of  # only an air gap needs all that it loads

        found += problems_of(data)
    try:
        if not found:
            apt_files(data)
    except SparkwrightError as error:
        found += str(error).splitlines()
    return found
