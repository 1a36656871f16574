"""The files that are linted together, so that one can be found from another."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path, PurePath

from sparkwright.lint import source
from sparkwright.lint.model import Assignment, At, Directive, How
from sparkwright.lint.parse import envfile, script
from sparkwright.lint.source import CannotLint, Source
from sparkwright.lint.text import of_file


@dataclass
class Files:
    """The files that are linted together, so that one can be found from another.

    + sources: by path as given; texts: env files read on the way, by path
    """

    sources: dict[str, Source] = field(default_factory=dict)
    dropins: dict[str, list[Directive]] = field(default_factory=dict)

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
        for path, found in self.sources.items():
            if PurePath(path).name == PurePath(name).name:
                return found
        if PurePath(name).is_absolute() and not PurePath(beside).is_relative_to("/etc"):
            return None
        try:
            return source.read(str(Path(beside) / name))
        except CannotLint:
            return None
