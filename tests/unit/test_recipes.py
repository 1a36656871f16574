"""Recipes: a table of bad ones with the exact messages; the example and the real ones load."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
import yaml

from sparkwright.errors import SparkwrightError
from sparkwright.paths import PROJECT
from sparkwright.recipe_rules import REFUSED, SHORT
from sparkwright.recipe_types import Spread
from sparkwright.recipes import (
    Acceptance,
    Container,
    Recipe,
    Weights,
    load_recipe,
    load_recipes,
)
from sparkwright.vllm_rules import REFUSED as REFUSED_VLLM
from sparkwright.vllm_rules import TABLE_ENV
from tests.unit.recipe_case import errors, write

W = "{repo: a/b, revision: main, license: mit, %s}"
Q = '{question: "2+2?", expect: "4", %s}'
FLAG = "recipes/x.yaml: flags/"
OURS = "sparkwright sets this flag itself; set "
EXAMPLES = [
    PROJECT / f"recipes/_example{name}.yaml" for name in ("", "-vllm", "-container", "-two-sparks")
]
GONE = "llama-server has no such flag any more (llama.cpp#28334); write load-mode: "
LONG = "write llama-server's long name, without dashes in front; write "


BAD: dict[str, tuple[dict[str, str | None], str]] = {
    "no_engine": ({"engine": None}, "recipes/x.yaml: engine is missing; add engine: (text)"),
    "engine": (
        {"engine": "llamacpp"},
        'recipes/x.yaml: engine: must be llama.cpp, vllm or container, not "llamacpp"; '
        "did you mean llama.cpp?",
    ),
    "unknown": (
        {"memory": "1"},
        "recipes/x.yaml: unknown key memory; did you mean memory_gib?",
    ),
    "name": (
        {"name": "x"},
        "recipes/x.yaml: unknown key name; the file's name is the recipe's name; remove it",
    ),
    "port_text": (
        {"port": '"8080"'},
        "recipes/x.yaml: port: must be a whole number, not text; remove the quotes",
    ),
    "port_zero": ({"port": "0"}, "recipes/x.yaml: port: must be 1 to 65535, not 0"),
    "port_bool": ({"port": "true"}, "recipes/x.yaml: port: must be a whole number, not true"),
    "memory_zero": (
        {"memory_gib": "0"},
        "recipes/x.yaml: memory_gib: must be greater than 0, not 0",
    ),
    "memory_word": (
        {"memory_gib": "70GiB"},
        "recipes/x.yaml: memory_gib: must be a number, not text",
    ),
    "memory_inf": (
        {"memory_gib": "1e999"},
        "recipes/x.yaml: memory_gib: must be a finite number; write fewer digits",
    ),
    "context": (
        {"context": "-1"},
        "recipes/x.yaml: context: must be greater than 0, not -1",
    ),
    "context_fraction": (
        {"context": "4096.0"},
        "recipes/x.yaml: context: must be a whole number, not a number",
    ),
    "timeout": (
        {"load_timeout_s": "20min"},
        "recipes/x.yaml: load_timeout_s: must be a whole number, not text",
    ),
    "description": (
        {"description": '"a\\nb"'},
        "recipes/x.yaml: description: must be one line without control characters; "
        "remove the line break",
    ),
    "served_name": (
        {"served_name": "a,b"},
        "recipes/x.yaml: served_name: must be one name without a comma; remove the comma",
    ),
    "served_name_number": (
        {"served_name": "5"},
        "recipes/x.yaml: served_name: must be text, not a number; put it in quotes",
    ),
    # weights
    "no_weights": (
        {"weights": "{repo: a/b, revision: main}"},
        "recipes/x.yaml: weights: license is missing; add license: (text)",
    ),
    "weights_text": (
        {"weights": "a/b"},
        "recipes/x.yaml: weights: must be a map, not text",
    ),
    "weights_typo": (
        {"weights": W % "exlude: []"},
        "recipes/x.yaml: weights: unknown key exlude; did you mean exclude?",
    ),
    "repo_address": (
        {"weights": "{repo: 'https://hub/a/b', revision: main, license: mit}"},
        "recipes/x.yaml: weights/repo: must be owner/name, not an address; "
        "write what follows the host name",
    ),
    "repo_name": (
        {"weights": "{repo: b, revision: main, license: mit}"},
        'recipes/x.yaml: weights/repo: must be owner/name, not "b"; '
        "copy it from the model's page on the Hub",
    ),
    "repo_dots": (
        {"weights": "{repo: ../b, revision: main, license: mit}"},
        'recipes/x.yaml: weights/repo: must be owner/name, not "../b"; '
        "copy it from the model's page on the Hub",
    ),
    "revision_short": (
        {"weights": "{repo: a/b, revision: b5c939de, license: mit}"},
        "recipes/x.yaml: weights/revision: looks like a commit but has 8 digits; "
        "write all 40, or a branch and run: sparkwright lock",
    ),
    "revision_number": (
        {"weights": "{repo: a/b, revision: 12345678, license: mit}"},
        "recipes/x.yaml: weights/revision: must be text, not a number; put it in quotes",
    ),
    "revision_capital": (
        {"weights": f"{{repo: a/b, revision: {'AB' * 20}, license: mit}}"},
        "recipes/x.yaml: weights/revision: is a commit with capital letters; "
        "write it in lower case",
    ),
    "revision_words": (
        {"weights": '{repo: a/b, revision: "the main one", license: mit}'},
        'recipes/x.yaml: weights/revision: must be a commit or a branch, not "the main one"; '
        "write main, for example",
    ),
    "gated_word": (
        {"weights": W % "gated: yes"},
        "recipes/x.yaml: weights/gated: must be true or false, not text",
    ),
    "include_text": (
        {"weights": W % 'include: "*.gguf"'},
        "recipes/x.yaml: weights/include: must be a list, not text",
    ),
    "pattern_dot_slash": (
        {"weights": W % "exclude: [./original/*]"},
        'recipes/x.yaml: weights/exclude/0: "./original/*" matches nothing: '
        'paths have no "./" or "/" in front; write original/*',
    ),
    "pattern_slash": (
        {"weights": W % "exclude: [/original]"},
        'recipes/x.yaml: weights/exclude/0: "/original" matches nothing: '
        'paths have no "./" or "/" in front; write original/*',
    ),
    "pattern_bare": (
        {"weights": W % "exclude: [metal/*, original]"},
        'recipes/x.yaml: weights/exclude/1: "original" matches no file of that directory; '
        "write original/*",
    ),
    "pattern_empty": (
        {"weights": W % 'include: [""]'},
        "recipes/x.yaml: weights/include/0: is an empty pattern; remove it",
    ),
    "pattern_number": (
        {"weights": W % "include: [5]"},
        "recipes/x.yaml: weights/include/0: must be text, not a number; put it in quotes",
    ),
    # flags
    "flags_list": ({"flags": "[jinja]"}, "recipes/x.yaml: flags: must be a map, not a list"),
    "flag_model": ({"flags": "{model: x}"}, f"{FLAG}model: {OURS}weights instead"),
    "flag_m": ({"flags": "{m: x}"}, f"{FLAG}m: {OURS}weights instead"),
    "flag_host": (
        {"flags": "{host: 0.0.0.0}"},
        f"{FLAG}host: {OURS}listen in sparks.yaml instead",
    ),
    "flag_port": (
        {"flags": "{port: 1}"},
        f"{FLAG}port: {OURS}port (in the recipe or under serve in sparks.yaml) instead",
    ),
    "flag_ctx": ({"flags": "{ctx-size: 1}"}, f"{FLAG}ctx-size: {OURS}context instead"),
    "flag_c": ({"flags": "{c: 1}"}, f"{FLAG}c: {OURS}context instead"),
    "flag_ctx_underscore": (
        {"flags": "{ctx_size: 1}"},
        f"{FLAG}ctx_size: {OURS}context instead",
    ),
    "flag_alias": ({"flags": "{alias: x}"}, f"{FLAG}alias: {OURS}served_name instead"),
    "flag_api_key": (
        {"flags": "{api-key: hunter2}"},
        f"{FLAG}api-key: a key in a command line can be read by every user of the spark; "
        "set api_key: generate in sparks.yaml",
    ),
    "flag_no_mmap": ({"flags": "{no-mmap: true}"}, f"{FLAG}no-mmap: {GONE}none"),
    "flag_mlock": ({"flags": "{--mlock: true}"}, f"{FLAG}--mlock: {GONE}mlock"),
    "flag_bare_fa": (
        {"flags": "{flash-attn: true}"},
        f"{FLAG}flash-attn: a bare flash-attn is an error in llama-server; write on, off or auto",
    ),
    "flag_short": ({"flags": "{ngl: 999}"}, f"{FLAG}ngl: {LONG}n-gpu-layers"),
    "flag_dashes": ({"flags": "{--parallel: 2}"}, f"{FLAG}--parallel: {LONG}parallel"),
    "flag_underscore": ({"flags": "{batch_size: 2}"}, f"{FLAG}batch_size: {LONG}batch-size"),
    "flag_line": (
        {"flags": '{"jinja --metrics": true}'},
        f"{FLAG}jinja --metrics: is not a flag name; "
        "write llama-server's long name, as in n-gpu-layers",
    ),
    "flag_false": (
        {"flags": "{jinja: false}"},
        f"{FLAG}jinja: false leaves a flag out; remove it, or write no-jinja: true",
    ),
    "flag_no_false": (
        {"flags": "{no-ui: false}"},
        f"{FLAG}no-ui: false leaves a flag out; remove it, or write ui: true",
    ),
    "flag_null": (
        {"flags": "{jinja: }"},
        f"{FLAG}jinja: has no value; write jinja: true for a flag without one",
    ),
    "flag_list": (
        {"flags": "{tensor-split: [1, 2]}"},
        f"{FLAG}tensor-split: must be text, a number or true, not a list; "
        "a list is written as one text, as llama-server wants it",
    ),
    "flag_newline": (
        {"flags": '{chat-template: "a\\nb"}'},
        f"{FLAG}chat-template: must be one line without control characters; remove the line break",
    ),
    # env
    "env_number": (
        {"env": "{OMP_NUM_THREADS: 4}"},
        "recipes/x.yaml: env/OMP_NUM_THREADS: must be text, not a number; put it in quotes",
    ),
    "env_name": (
        {"env": "{A-B: x}"},
        "recipes/x.yaml: env/A-B: is not a name of an environment variable; "
        "use letters, digits and _",
    ),
    "env_flag": (
        {"env": '{LLAMA_ARG_CTX_SIZE: "1"}'},
        "recipes/x.yaml: env/LLAMA_ARG_CTX_SIZE: a flag must not hide in the environment; "
        "write it under flags (ctx-size)",
    ),
    "env_secret": (
        {"env": "{HF_TOKEN: hunter2}"},
        "recipes/x.yaml: env/HF_TOKEN: secrets do not belong in a recipe or a unit; remove it",
    ),
    "env_ours": (
        {"env": "{TIKTOKEN_CACHE_DIR: /x}"},
        "recipes/x.yaml: env/TIKTOKEN_CACHE_DIR: sparkwright sets this variable itself; remove it",
    ),
    # acceptance
    "no_question": (
        {"acceptance": '{expect: "4"}'},
        "recipes/x.yaml: acceptance: question is missing; add question: (text)",
    ),
    "expect_number": (
        {"acceptance": '{question: "2+2?", expect: 4}'},
        "recipes/x.yaml: acceptance/expect: must be text, not a number; put it in quotes",
    ),
    "expect_blank": (
        {"acceptance": '{question: "2+2?", expect: " "}'},
        "recipes/x.yaml: acceptance/expect: has no text in it; give it some, or remove the key",
    ),
    "finish_reason": (
        {"acceptance": Q % "finish_reason: eos"},
        'recipes/x.yaml: acceptance/finish_reason: must be stop, length or tool_calls, not "eos"; '
        "known: length, stop, tool_calls",
    ),
    "max_tokens": (
        {"acceptance": Q % "max_tokens: 0"},
        "recipes/x.yaml: acceptance/max_tokens: must be greater than 0, not 0",
    ),
    "regex": (
        {"acceptance": Q % 'log_must: ["device (CUDA0"]'},
        "recipes/x.yaml: acceptance/log_must/0: is not a regular expression (missing ), "
        'unterminated subpattern at position 7); escape ( ) [ ] . with \\, as in "\\("',
    ),
    "regex_everything": (
        {"acceptance": Q % 'log_must_not: [".*"]'},
        "recipes/x.yaml: acceptance/log_must_not/0: matches every line; "
        "write something that only the wanted line holds",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_recipe_says_where_what_and_what_to_do(tmp_path: Path, case: str) -> None:
    changes, message = BAD[case]
    assert errors(write(tmp_path, **changes)) == [message]


def test_no_message_repeats_a_secret(tmp_path: Path) -> None:
    for changes in ({"env": "{HF_TOKEN: hunter2}"}, {"flags": "{api-key: hunter2}"}):
        assert "hunter2" not in "".join(errors(write(tmp_path, **changes)))


def test_every_problem_of_every_file_is_told_at_once(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", port="0", engine=None, flags="{m: x, fa: on}")
    write(tmp_path, "b.yaml", context="no")
    (tmp_path / "recipes/c.yml").write_text("")
    write(tmp_path, "D D.yaml")
    with pytest.raises(SparkwrightError) as error:
        load_recipes([tmp_path / "recipes"])
    assert str(error.value).splitlines() == [
        'recipes/D D.yaml: "D D" cannot name a recipe; '
        "use a-z, 0-9, dot and dash, at most 80 characters",
        "recipes/a.yaml: engine is missing; add engine: (text)",
        "recipes/a.yaml: port: must be 1 to 65535, not 0",
        f"recipes/a.yaml: flags/m: {OURS}weights instead",
        f"recipes/a.yaml: flags/fa: {LONG}flash-attn",
        "recipes/b.yaml: context: must be a whole number, not text",
        "recipes/c.yml: is not read; rename it to c.yaml",
    ]


def test_an_empty_recipe_points_to_the_example(tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    path = tmp_path / "recipes/x.yaml"
    path.write_text("")
    assert errors(path) == ["recipes/x.yaml: the file is empty; see recipes/_example.yaml"]


def test_a_minimal_recipe_gets_the_defaults(tmp_path: Path) -> None:
    assert load_recipe(write(tmp_path)) == Recipe(
        name="x",
        engine="llama.cpp",
        description="A model",
        served_name="x",
        port=8080,
        memory_gib=1.5,
        context=4096,
        weights=Weights("a/b", "main", "mit", (), (), False),
        flags={},
        env={},
        load_timeout_s=1200,
        acceptance=Acceptance("2+2?", "4", 1024, "stop", (), ()),
    )


def test_flags_keep_their_types_and_a_bare_on_is_text(tmp_path: Path) -> None:
    flags = '{flash-attn: on, parallel: 2, min-p: 0.01, jinja: true, fit: off, lora: "a b"}'
    recipe = load_recipe(write(tmp_path, flags=flags, memory_gib="70"))
    assert recipe.flags == {
        "flash-attn": "on",
        "parallel": 2,
        "min-p": 0.01,
        "jinja": True,
        "fit": "off",
        "lora": "a b",
    }
    assert isinstance(recipe.memory_gib, float)


@pytest.mark.parametrize("pattern", ["original/", "*.gguf", "LICENSE", "config.json", "a/*/b"])
def test_patterns_that_can_match_are_fine(tmp_path: Path, pattern: str) -> None:
    recipe = load_recipe(write(tmp_path, weights=W % f'include: ["{pattern}"]'))
    assert recipe.weights
    assert recipe.weights.include == (pattern,)


@pytest.mark.parametrize("revision", ["main", "refs/pr/1", "v1.0", "0123456789" * 4])
def test_revisions_are_commits_or_branches(tmp_path: Path, revision: str) -> None:
    weights = f"{{repo: a/b, revision: {revision}, license: mit}}"
    found = load_recipe(write(tmp_path, weights=weights)).weights
    assert found
    assert found.revision == revision


def test_files_that_begin_with_an_underscore_are_not_recipes(tmp_path: Path) -> None:
    write(tmp_path, "_draft.yaml", port="0")
    write(tmp_path, "good.yaml")
    assert list(load_recipes([tmp_path / "recipes", tmp_path / "none"])) == ["good"]


def fields(cls: type, skip: tuple[str, ...] = ()) -> set[str]:
    return {field.name for field in dataclasses.fields(cls)} - set(skip)


def test_the_examples_show_every_key() -> None:
    shown = yaml.safe_load(EXAMPLES[0].read_text())
    assert set(shown) == fields(Recipe, skip=("name", "profile", "kernels", "container", "spread"))
    assert set(shown["weights"]) == fields(Weights)
    assert set(shown["acceptance"]) == fields(Acceptance)
    assert shown["env"]
    assert shown["flags"]
    of_vllm, of_containers, of_two = (yaml.safe_load(path.read_text()) for path in EXAMPLES[1:])
    assert {"profile", "kernels", "flags", "env"} <= set(of_vllm)
    assert set(of_containers["container"]) == fields(Container)
    assert fields(Spread) <= set(of_two)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_loads_and_comments_every_key(path: Path) -> None:
    assert load_recipe(path).engine in path.read_text()
    lines = path.read_text().splitlines()
    for at, line in enumerate(lines):
        # A key is explained behind it or by the comment lines above its block.
        block = next((n for n in range(at, -1, -1) if not lines[n].strip()), 0)
        assert "#" in line or any("#" in above for above in lines[block:at]) or not line, line


def test_the_projects_recipes_load_and_stay_short() -> None:
    recipes = load_recipes([PROJECT / "recipes"])
    assert "gpt-oss-120b-llamacpp" in recipes
    for path in (PROJECT / "recipes").glob("*.yaml"):
        assert len(path.read_text().splitlines()) <= 50, path


def test_every_flag_of_a_real_recipe_carries_its_reason() -> None:
    for path in (PROJECT / "recipes").glob("[!_]*.yaml"):
        block = re.search(r"^(?:flags|env):\n(?:.+\n)+", path.read_text(), re.M)
        assert block, path.name
        for line in block[0].splitlines():
            assert re.search(r"# \S", line) or not line.startswith(" "), f"{path.name}: {line}"


def test_log_lines_of_gpt_oss_find_what_llama_server_prints() -> None:
    acceptance = load_recipe(PROJECT / "recipes/gpt-oss-120b-llamacpp.yaml").acceptance
    # The formats of llama.cpp 0c1e57098: src/llama.cpp, src/llama-model.cpp, ggml-cuda.cu.
    log = [
        "system_info: n_threads = 20 (n_threads_batch = 20) / 20 | CUDA : ARCHS = 1210 | "
        "USE_GRAPHS = 1 | CPU : NEON = 1 | ",
        "llama_prepare_model_devices: using device CUDA0 (NVIDIA GB10) (000f:01:00.0) - 118000 MiB "
        "free",
        "load_tensors: offloaded 37/37 layers to GPU",
    ]
    for pattern in acceptance.log_must:
        assert any(re.search(pattern, line) for line in log), pattern
    bad = [
        "system_info: n_threads = 20 / 20 | CUDA : ARCHS = 900,1200 | ",
        "using device CUDA0 (NVIDIA H200) (0000:01:00.0) - 118000 MiB free",
        "load_tensors: offloaded 30/37 layers to GPU",
    ]
    for pattern in acceptance.log_must:
        assert not any(re.search(pattern, line) for line in bad), pattern
    fallback = [
        "warning: no usable GPU found, --gpu-layers option will be ignored",
        "ggml_cuda_init: failed to initialize CUDA: no CUDA-capable device is detected",
    ]
    for line in fallback:
        assert any(re.search(pattern, line) for pattern in acceptance.log_must_not), line


def test_the_documentation_holds_the_example_and_every_refused_flag() -> None:
    text = (PROJECT / "docs/recipes.md").read_text()
    for path in EXAMPLES:
        assert f"```yaml\n{path.read_text()}```" in text, f"copy {path.name} into docs/recipes.md"
    for flag, (what, hint) in [*REFUSED.items(), *REFUSED_VLLM.items()]:
        assert f"| `{flag}` | {what}; {hint} |" in text, flag
    for name in sorted(TABLE_ENV):
        assert f"`{name}`" in text, name


def test_short_names_lead_to_known_long_names() -> None:
    assert not set(SHORT.values()) & set(SHORT)
