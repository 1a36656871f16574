"""The files that are linted together, so that one can be found from another."""

from __future__ import annotations

import os
import posixpath
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePath

from sparkwright.lint import source
from sparkwright.lint.model import Assignment, At, Directive, How
from sparkwright.lint.parse import envfile, script
from sparkwright.lint.source import CannotLint, Source
from sparkwright.lint.text import of_file


@dataclass
class Files:
    """The files that are linted together, so that one can be found from another.

    + sources: by path as given; not changed once the first file was looked for
    + dropins: unit -> (directory that its .d directory is in, directives), sorted
    """

    sources: dict[str, Source] = field(default_factory=dict)
    dropins: dict[str, list[tuple[str, list[Directive]]]] = field(default_factory=dict)

    @cached_property
    def _normal(self) -> dict[str, str]:
        return {os.path.normpath(path): path for path in self.sources}

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for path in self.sources:
            found.setdefault(posixpath.basename(path), []).append(path)
        return found

    def drop_ins(self, path: str) -> list[Directive]:
        """Directives of a unit's drop-ins, in the order in which systemd applies them.

        Those in a directory beside it; from elsewhere only when no other unit has its name.
        """
        name, here = posixpath.basename(path), os.path.normpath(posixpath.dirname(path) or ".")
        alone = len(self._by_name.get(name, ())) <= 1
        return [
            directive
            for folder, directives in self.dropins.get(name, ())
            if alone or os.path.normpath(folder) == here
            for directive in directives
        ]

    def reader(self, path: str) -> script.ReadFile:
        """A function that finds env files which the file at `path` names."""

        def read(name: str, at: At, how: How) -> tuple[Assignment, ...] | None:
            found = self._find(name, PurePath(path).parent)
            if found is None:
                return None
            text = of_file(found.text, found.path)
            parse = {How.DOCKER_FILE: envfile.docker_items, How.COMPOSE_FILE: envfile.compose_items}
            return tuple(parse.get(how, envfile.systemd_items)(text))

        return read

    def _find(self, name: str, beside: PurePath) -> Source | None:
        if not name or "%" in name or "$" in name:
            return None
        if (exact := os.path.normpath(beside / name)) in self._normal:
            return self.sources[self._normal[exact]]
        # One of that name among the files is meant for it, wherever they were copied to.
        alike = self._by_name.get(posixpath.basename(name), ())
        if len(alike) == 1:
            return self.sources[alike[0]]
        if PurePath(name).is_absolute() and not PurePath(beside).is_relative_to("/etc"):
            return None
        try:
            return source.read(str(Path(beside) / name))
        except CannotLint:
            return None
