"""Which files of a repository a recipe takes, decided before a byte moves. Pure.

Patterns mean what they mean to huggingface_hub 2.4.0 (`filter_repo_objects`, run side by side in
tests): fnmatch over the whole path with case, "*" also crosses "/", and a pattern that ends in
"/" stands for everything below. A file is taken when it matches an include (or there is none)
and no exclude.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from sparkwright.artifacts import HubFile

# The excludes that this project ships: copies of the weights for other runtimes in openai's
# repositories (dynamo#3610: they tripled a download). One that matches nothing means that the
# repository changed its layout and a user is about to fetch everything.
BUILTIN_EXCLUDES: Final = ("original/*", "metal/*")


@dataclass(frozen=True)
class Selection:
    """What is taken and what is left.

    + problems: refuse to go on; each a sentence that names its pattern
    + warnings: a user's own exclude that matches nothing; told, not refused
    """

    kept: tuple[HubFile, ...]
    skipped: tuple[HubFile, ...]
    problems: tuple[str, ...]
    warnings: tuple[str, ...] = ()

    @property
    def kept_bytes(self) -> int:
        """Bytes to have on disk."""
        return sum(file.size for file in self.kept)

    @property
    def skipped_bytes(self) -> int:
        """Bytes left at the Hub."""
        return sum(file.size for file in self.skipped)


def select(
    files: Sequence[HubFile],
    include: Sequence[str],
    exclude: Sequence[str],
    builtin: Collection[str] = BUILTIN_EXCLUDES,
) -> Selection:
    """Choose from a repository's full file list.

    + builtin: excludes whose having no match is a problem, not a warning
    """
    paths = [file.path for file in files]
    kept = [file for file in files if _taken(file.path, include, exclude)]
    names = {file.path for file in kept}
    problems = [_nothing("include", p) for p in include if not _hits(p, paths)]
    idle = [pattern for pattern in exclude if not _hits(pattern, paths)]
    problems += [_nothing("exclude", pattern) for pattern in idle if pattern in builtin]
    warnings = [_nothing("exclude", pattern) for pattern in idle if pattern not in builtin]
    if not kept and not problems:
        problems.append("no file is left; the excludes drop everything that is included")
    return Selection(
        kept=tuple(kept),
        skipped=tuple(file for file in files if file.path not in names),
        problems=tuple(problems),
        warnings=tuple(warnings),
    )


def _taken(path: str, include: Sequence[str], exclude: Sequence[str]) -> bool:
    if include and not any(_hits(pattern, [path]) for pattern in include):
        return False
    return not any(_hits(pattern, [path]) for pattern in exclude)


def _hits(pattern: str, paths: Sequence[str]) -> bool:
    whole = pattern + "*" if pattern.endswith("/") else pattern
    return any(fnmatchcase(path, whole) for path in paths)


def _nothing(kind: str, pattern: str) -> str:
    return f'{kind} "{pattern}" matches no file of the repository; correct or remove it'
