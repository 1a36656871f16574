"""
Vocabulary of gpt-oss: o200k_base under its SHA1 name and under its plain name.

Leaves: {data_dir}/tiktoken/fb374d419588a4632f3f557e76b4b70aebbca790 and …/o200k_base.tiktoken
Needs:  tasks.base

openai-harmony reads the plain name from TIKTOKEN_ENCODINGS_BASE and the SHA1 of the URL from
TIKTOKEN_RS_CACHE_DIR; Python's tiktoken reads the SHA1 name from TIKTOKEN_CACHE_DIR. harmony
deletes a file of the wrong hash (openai/harmony#101), so the directory belongs to root.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyinfra.api import deploy

from sparkwright.operations import ensure
from sparkwright.resources import Directory, Fetched, Resource
from sparkwright.site import artifact, need
from sparkwright.strays import NoStrays


@deploy("tiktoken")
def install(data: Mapping[str, Any]) -> None:
    """Both names hold the same bytes, checked by sha256 on the machine."""
    ensure(name="Seed the vocabulary", resources=wanted(data))


def wanted(data: Mapping[str, Any]) -> list[Resource]:
    """The directory and its two files, and no other: copies of an earlier fetch may be broken."""
    place = f"{data['data_dir']}/tiktoken"
    file = artifact(data, "tiktoken-o200k_base")
    names = (need(file.sha1_name), need(file.plain_name))
    return [
        Directory(place),
        *[
            Fetched(f"{place}/{name}", need(file.url), need(file.sha256), file.size)
            for name in names
        ],
        NoStrays(place, names),
    ]
