"""Rules for a recipe's values: flags, environment, patterns, repository names. Pure checks."""

from __future__ import annotations

import re
from typing import Final

from sparkwright.yaml_reader import Verdict, kind_word, not_blank

_OURS: Final = "sparkwright sets this flag itself"
_LOAD_MODE: Final = "llama-server has no such flag any more (llama.cpp#28334)"
_EXPOSED: Final = "a key in a command line can be read by every user of the spark"
_KEY_HINT: Final = "set api_key: generate in sparks.yaml"

# Flags that a recipe must not set: (what is wrong, what to do).
# Short forms, removed and renamed flags: common/arg.cpp of llama.cpp at 0c1e57098.
REFUSED: Final[dict[str, tuple[str, str]]] = {
    "model": (_OURS, "set weights instead"),
    "hf-repo": (_OURS, "set weights instead"),
    "model-url": (_OURS, "set weights instead"),
    "host": (_OURS, "set listen in sparks.yaml instead"),
    "port": (_OURS, "set port (in the recipe or under serve in sparks.yaml) instead"),
    "alias": (_OURS, "set served_name instead"),
    "ctx-size": (_OURS, "set context instead"),
    "api-key-file": (_OURS, _KEY_HINT),
    "api-key": (_EXPOSED, _KEY_HINT),
    "no-mmap": (_LOAD_MODE, "write load-mode: none"),
    "mmap": (_LOAD_MODE, "write load-mode: mmap"),
    "mlock": (_LOAD_MODE, "write load-mode: mlock"),
    "direct-io": (_LOAD_MODE, "write load-mode: dio"),
    "webui": ("llama-server calls it ui now", "write ui: true"),
    "no-webui": ("llama-server calls it no-ui now", "write no-ui: true"),
    "log-disable": ("acceptance reads the start-up log", "remove it"),
    "log-file": ("acceptance reads the log from the journal", "remove it"),
}
SHORT: Final = {
    "m": "model",
    "hf": "hf-repo",
    "mu": "model-url",
    "a": "alias",
    "c": "ctx-size",
    "dio": "direct-io",
    "ngl": "n-gpu-layers",
    "gpu-layers": "n-gpu-layers",
    "fa": "flash-attn",
    "np": "parallel",
    "b": "batch-size",
    "ub": "ubatch-size",
    "t": "threads",
    "tb": "threads-batch",
    "ctk": "cache-type-k",
    "ctv": "cache-type-v",
    "cram": "cache-ram",
    "lm": "load-mode",
    "lv": "verbosity",
    "v": "verbose",
    "kvu": "kv-unified",
    "fitt": "fit-target",
}


def flag_problem(name: str, value: object) -> Verdict:
    """Why a llama-server flag cannot stand in a recipe, or None.

    + name: long option name without dashes
    + value: text, number, or True for a bare flag
    """
    plain = name.lstrip("-").replace("_", "-")
    long = SHORT.get(plain, plain)
    if long in REFUSED:
        return REFUSED[long]
    if long != name:
        return "write llama-server's long name, without dashes in front", f"write {long}"
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        return "is not a flag name", "write llama-server's long name, as in n-gpu-layers"
    if name == "flash-attn" and value not in ("on", "off", "auto"):
        return "a bare flash-attn is an error in llama-server", "write on, off or auto"
    return _flag_value(name, value)


def _flag_value(name: str, value: object) -> Verdict:
    if value is False:
        if name.startswith("no-"):
            return "false leaves a flag out", f"remove it, or write {name[3:]}: true"
        return "false leaves a flag out", f"remove it, or write no-{name}: true"
    if value is None:
        return "has no value", f"write {name}: true for a flag without one"
    if not isinstance(value, str | int | float):
        what = f"must be text, a number or true, not {kind_word(value)}"
        return what, "a list is written as one text, as llama-server wants it"
    return not_blank(value) if isinstance(value, str) else None


def env_problem(name: str, value: object) -> Verdict:
    """Why an environment variable cannot stand in a recipe, or None."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return "is not a name of an environment variable", "use letters, digits and _"
    if name.startswith("LLAMA_ARG_"):
        flag = name.removeprefix("LLAMA_ARG_").lower().replace("_", "-")
        return "a flag must not hide in the environment", f"write it under flags ({flag})"
    if name.startswith(("SPARKWRIGHT_", "TIKTOKEN_")):
        return "sparkwright sets this variable itself", "remove it"
    if re.search(r"(_|^)(TOKEN|KEY|SECRET|PASSWORD)$", name.upper()):
        return "secrets do not belong in a recipe or a unit", "remove it"
    if not isinstance(value, str):
        hint = "put it in quotes" if isinstance(value, bool | int | float) else ""
        return f"must be text, not {kind_word(value)}", hint
    return not_blank(value) if value else None


def pattern_problem(pattern: str) -> Verdict:
    """Why an include or exclude pattern would match nothing, or None.

    The Hub matches patterns against paths like "original/model.bin", so a leading "./" or "/" and a
    bare directory name match nothing, silently (huggingface_hub#2597).
    """
    if not pattern.strip():
        return "is an empty pattern", "remove it"
    bare = pattern.lstrip("./") if pattern.startswith(("./", "/")) else pattern
    right = f"{bare}/*" if _is_bare(bare) else bare
    if bare != pattern:
        return f'"{pattern}" matches nothing: paths have no "./" or "/" in front', f"write {right}"
    if right != pattern:
        return f'"{pattern}" matches no file of that directory', f"write {right}"
    if "\\" in pattern or any(ord(char) < 32 for char in pattern):
        return f'"{pattern}" matches nothing: paths use / and have no control characters', ""
    return None


def _is_bare(pattern: str) -> bool:
    # LICENSE and README are files by custom; a lower-case word without a dot is a directory.
    return not pattern.isupper() and not re.search(r"[./*?\[]", pattern)


def name_problem(name: str) -> Verdict:
    """Why a file name cannot name a recipe (units and directories are called by it), or None."""
    if re.fullmatch(r"[a-z0-9][a-z0-9.-]{0,79}", name):
        return None
    hint = "use a-z, 0-9, dot and dash, at most 80 characters"
    return f'"{name}" cannot name a recipe', hint


def served_name_problem(name: str) -> Verdict:
    """Why clients cannot ask for a model of this name, or None."""
    if "," in name:  # llama-server splits --alias at commas (common/arg.cpp)
        return "must be one name without a comma", "remove the comma"
    return not_blank(name)


def repo_problem(repo: str) -> Verdict:
    """Why this is not a Hub repository name, or None."""
    if "://" in repo or repo.startswith("huggingface.co"):
        return "must be owner/name, not an address", "write what follows the host name"
    word = r"[A-Za-z0-9][A-Za-z0-9._-]*"
    if not re.fullmatch(f"{word}/{word}", repo):
        return f'must be owner/name, not "{repo}"', "copy it from the model's page on the Hub"
    return None


def revision_problem(revision: str) -> Verdict:
    """Why this is neither a full commit nor a branch name, or None."""
    if re.fullmatch(r"[0-9a-f]{40}", revision):
        return None
    if re.fullmatch(r"[0-9a-fA-F]{40}", revision):
        return "is a commit with capital letters", "write it in lower case"
    if re.fullmatch(r"[0-9a-f]{7,64}", revision):
        what = f"looks like a commit but has {len(revision)} digits"
        return what, "write all 40, or a branch and run: sparkwright lock"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/-]*", revision):
        return f'must be a commit or a branch, not "{revision}"', "write main, for example"
    return None


def regex_problem(pattern: str) -> Verdict:
    """Why this cannot look for a line in a log, or None."""
    try:
        found = re.compile(pattern)
    except re.error as error:
        return f"is not a regular expression ({error})", 'escape ( ) [ ] . with \\, as in "\\("'
    if found.search(""):
        return "matches every line", "write something that only the wanted line holds"
    return None
