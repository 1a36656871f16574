"""The pages of docs/lint/, one a rule, made from the rules' docstrings.

python -m sparkwright.lint.docs    writes them anew
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sparkwright.lint.registry import Rule, rules
from sparkwright.paths import PROJECT

PAGES = PROJECT / "docs" / "lint"
GENERATED = "<!-- Made from the rule's docstring by `python -m sparkwright.lint.docs`. -->"


def page(rule: Rule) -> str:
    """The Markdown page of a rule."""
    verdicts = " or ".join(str(verdict) for verdict in rule.verdicts)
    parts = [
        f"# {rule.id}",
        GENERATED,
        f"**{verdicts}** · family `{rule.family}`",
        rule.summary,
        rule.why,
        "## Bad",
        f"```\n{rule.bad}\n```",
        "## Good",
        f"```\n{rule.good}\n```",
        "## Source",
        rule.source,
        f"Cases: `tests/lint/cases/{rule.family}/{rule.id}.yaml`",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def index(found: Mapping[str, Rule]) -> str:
    """The list of all rules, by family."""
    lines = ["# Rules of the lint", "", GENERATED, ""]
    family = ""
    for rule in sorted(found.values(), key=lambda rule: (rule.family, rule.id)):
        if rule.family != family:
            family = rule.family
            lines += ["", f"## {family}", "", "| rule | verdict | what |", "|---|---|---|"]
        verdicts = "/".join(str(verdict) for verdict in rule.verdicts)
        summary = rule.summary.replace("|", "\\|")
        lines.append(f"| [{rule.id}]({rule.id}.md) | {verdicts} | {summary} |")
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


def texts() -> dict[str, str]:
    """File name -> text of every page."""
    found = {f"{rule.id}.md": page(rule) for rule in rules().values()}
    return {**found, "README.md": index(rules())}


def write(directory: Path = PAGES) -> None:
    """Write every page, and remove those of rules that are gone."""
    directory.mkdir(parents=True, exist_ok=True)
    wanted = texts()
    for path in directory.glob("*.md"):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (directory / name).write_text(text)


if __name__ == "__main__":
    write()
