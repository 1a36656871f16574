"""Compose files: what each service's container starts."""

from __future__ import annotations

from collections.abc import Iterator

from sparkwright.lint.model import Assignment, How, Launch, Unsure, Word
from sparkwright.lint.parse import docker, template, words, yaml_text
from sparkwright.lint.parse.launches import Around
from sparkwright.lint.parse.yaml_tree import Node
from sparkwright.lint.text import Text


class Compose:
    """One compose file."""

    def __init__(self, root: Node, lines: list[str], read_file: docker.ReadFile) -> None:
        """
        + read_file: assignments of an env_file at hand
        """
        self.root, self.lines, self.read_file = root, lines, read_file
        self.unless = ""

    def text(self, node: Node) -> Text:
        """A scalar after compose's interpolation: defaults taken, other variables not told."""

        def fill(name: str, default: str | None) -> str | None:
            return default

        return template.dollars(yaml_text.text(node, self.lines), fill)

    def words(self, node: Node | None) -> list[Word]:
        """`command:` and `entrypoint:`, as text or as a list."""
        if node is None:
            return []
        if node.kind == "scalar":
            return list(words.split(self.text(node))) if node.tag != "null" else []
        texts = [self.text(item) for _, item in node.items if item.kind == "scalar"]
        return [words.word(t.text, t.text, t, 0) for t in texts]

    def launches(self, nested: docker.Nested) -> Iterator[Launch]:
        """Every engine that a service starts."""
        services = self.root.get("services")
        for name, service in services.pairs() if services else ():
            if service.kind == "map":
                yield from self._service(name, service, nested)

    def _service(self, name: Node, service: Node, nested: docker.Nested) -> Iterator[Launch]:
        image = service.get("image")
        unknown = list[Unsure]()
        env = [*self._files(service, unknown), *self.environment(service)]
        text = self.text(image) if image is not None and image.kind == "scalar" else None
        word = words.word(text.text, text.text, text, 0) if text else None
        if word is not None:
            unknown.append(Unsure(word.at, f"the image {word.raw} may set more"))
        found = docker.Container(image=word, command=self.words(service.get("command")))
        for entry in [self.words(service.get("entrypoint"))] if service.get("entrypoint") else []:
            found.options += [("--entrypoint", item) for item in entry]
        user = service.scalar("user")
        options = tuple(item for _, item in found.options if item)
        inside = Around(tuple(env), tuple(unknown), user, name.value, word, options)
        yield from docker.inside_image(found, name.at, inside, nested)

    def environment(self, service: Node) -> Iterator[Assignment]:
        """`environment:` as a map or as a list."""
        node = service.get("environment")
        if node is None:
            return
        for key, value in node.items:
            if key is not None and value.kind == "scalar":
                text = self.text(value)
                known = words.word(text.text, text.text, text, 0).text
                raw = f"{key.value}: {value.value}"
                yield Assignment(key.value, known, raw, key.at, How.COMPOSE)
            elif key is None and value.kind == "scalar":
                text = self.text(value)
                name, equals, rest = text.text.partition("=")
                given = words.word(rest, rest, text, 0).text if equals else None
                yield Assignment(name, given, value.value, value.at, How.COMPOSE)

    def _files(self, service: Node, unknown: list[Unsure]) -> Iterator[Assignment]:
        node = service.get("env_file")
        if node is None:
            return
        for item in [node] if node.kind == "scalar" else [value for _, value in node.items]:
            path = item.value if item.kind == "scalar" else item.scalar("path") or ""
            found = self.read_file(path, item.at, How.COMPOSE_FILE)
            if found is None:
                unknown.append(Unsure(item.at, f"{path} is not at hand"))
            yield from found or ()
