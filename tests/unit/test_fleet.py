"""sparks.yaml: a table of bad files with the exact messages, and what a good one becomes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from sparkwright.errors import SparkwrightError
from sparkwright.fleet import Fleet, load_fleet
from sparkwright.fleet_artifacts import Artifacts
from sparkwright.fleet_fabric import Fabric
from sparkwright.fleet_serve import Served
from sparkwright.fleet_settings import settings_defaults
from sparkwright.fleet_ssh import Ssh
from sparkwright.paths import PROJECT

SETTINGS: dict[str, object] = {
    "listen": "127.0.0.1",
    "api_key": "none",
    "verify": "fast",
    "memory_reserve_gib": 12,
    "ratio": 0.5,
    "gpu_required": True,
    "llama_cpp_cmake_flags": [],
    "llama_cpp_build_env": {},
    "hub_endpoint": None,
    "lock_file": "artifacts.lock.yaml",
    "cluster": {},
}
RECIPE = """
engine: llama.cpp
description: A model
port: {port}
memory_gib: 1
context: 4096
weights: {{repo: a/b, revision: main, license: mit}}
acceptance: {{question: "2+2?", expect: "4"}}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory with two recipes on ports 8080 and 8081 and one more on 8080."""
    (tmp_path / "recipes").mkdir()
    for name, port in (("gpt-oss-120b", 8080), ("qwen", 8081), ("nemotron", 8080)):
        (tmp_path / f"recipes/{name}.yaml").write_text(RECIPE.format(port=port))
    return tmp_path


def load(project: Path, text: str) -> Fleet:
    path = project / "sparks.yaml"
    path.write_text(text)
    return load_fleet(path, SETTINGS)


def errors(project: Path, text: str) -> list[str]:
    with pytest.raises(SparkwrightError) as error:
        load(project, text)
    return str(error.value).splitlines()


def one(line: str) -> str:
    """A fleet of one good spark with one more line."""
    return f"sparks:\n  a:\n    address: 10.0.0.1\n    {line}\n"


def served(*items: str) -> str:
    return one(f"serve: [{', '.join(items)}]")


A = "sparks.yaml: sparks/a"
GOOD = "\nsparks: {z: {address: 10.9.9.9}}"
BAD = {
    # The file's own keys
    "unknown_top": ("spraks: {}" + GOOD, "sparks.yaml: unknown key spraks; did you mean sparks?"),
    "no_sparks": (
        "defaults: {}",
        "sparks.yaml: sparks is missing; add sparks: {spark-1: {address: ...}}",
    ),
    "sparks_empty": (
        "sparks: {}",
        "sparks.yaml: sparks: lists no spark; add spark-1: {address: ...}",
    ),
    "sparks_null": (
        "sparks:",
        "sparks.yaml: sparks: has no value; give it one, or remove the key",
    ),
    "sparks_list": (
        "sparks: [{address: 10.0.0.1}]",
        "sparks.yaml: sparks: must be a map, not a list",
    ),
    "spark_text": ("sparks: {a: 10.0.0.1}", f"{A}: must be a map, not text"),
    "mirror": (
        "artifacts: {from: mirror}" + GOOD,
        "sparks.yaml: artifacts: url is missing, from: mirror needs it; "
        "add url: http://files.example.lan/bundle",
    ),
    "bundle": (
        "artifacts: {from: bundle}" + GOOD,
        "sparks.yaml: artifacts: path is missing, from: bundle needs it; "
        "add path: /media/usb/bundle",
    ),
    "mirror_url": (
        "artifacts: {from: mirror, url: 'ftp://x/y'}" + GOOD,
        'sparks.yaml: artifacts/url: must be http://host:port/path, not "ftp://x/y"; '
        "write url: http://files.example.lan/bundle",
    ),
    "mirror_password": (
        "artifacts: {from: mirror, url: 'http://me:secret@x/y'}" + GOOD,
        "sparks.yaml: artifacts/url: holds a user name or password; "
        "no secrets in this file; serve it without",
    ),
    "path_without_bundle": (
        "artifacts: {path: /x}" + GOOD,
        "sparks.yaml: artifacts/path: belongs to from: bundle, and this says from: upstream; "
        "remove it, or write from: bundle",
    ),
    "library_relative": (
        "artifacts: {library: models}" + GOOD,
        'sparks.yaml: artifacts/library: must be a plain absolute path, not "models"; '
        "write library: /mnt/models",
    ),
    "library_at_home": (
        "artifacts: {library: /home/me/models}" + GOOD,
        "sparks.yaml: artifacts/library: /home/me/models is hidden from services; "
        "mount it below /mnt or /srv",
    ),
    "library_copy_of_nothing": (
        "artifacts: {library_copy: true}" + GOOD,
        "sparks.yaml: artifacts/library_copy: there is no library to copy from; "
        "add library: /mnt/models",
    ),
    "artifacts_typo": (
        "artifacts: {form: mirror}" + GOOD,
        "sparks.yaml: artifacts: unknown key form; did you mean from?",
    ),
    "from_word": (
        "artifacts: {from: internet}" + GOOD,
        'sparks.yaml: artifacts/from: must be upstream, mirror or bundle, not "internet"; '
        "known: bundle, mirror, upstream",
    ),
    "lock_number": (
        "artifacts: {lock: 5}" + GOOD,
        "sparks.yaml: artifacts/lock: must be text, not a number; put it in quotes",
    ),
    "no_recipe_dir": (
        "recipes: [nowhere]" + GOOD,
        "sparks.yaml: recipes/0: no directory {dir}/nowhere; it is relative to this file",
    ),
    "recipes_text": ("recipes: recipes" + GOOD, "sparks.yaml: recipes: must be a list, not text"),
    "defaults_address": (
        "defaults: {address: 10.0.0.1}" + GOOD,
        "sparks.yaml: defaults: unknown key address; write it under each spark",
    ),
    # A spark
    "bad_name": (
        'sparks: {"a/b": {address: 10.0.0.1}}',
        'sparks.yaml: sparks: "a/b" cannot name a spark; '
        "use letters, digits, dot, dash and _, at most 63 characters",
    ),
    "name_inventory": (
        "sparks: {inventory: {address: 10.0.0.1}}",
        "sparks.yaml: sparks: a spark cannot be called inventory; pyinfra has a group of that name",
    ),
    "no_address": ("sparks: {a: {}}", f"{A}: address is missing; add address: (text)"),
    "unknown_key": (one("adress: x"), f"{A}: unknown key adress; did you mean address?"),
    "address_list": (
        "sparks: {a: {address: [x]}}",
        f"{A}/address: must be text, not a list",
    ),
    "address_number": (
        "sparks: {a: {address: 10.5}}",
        f"{A}/address: must be text, not a number; put it in quotes",
    ),
    "address_octet": (
        "sparks: {a: {address: 192.168.1.300}}",
        f'{A}/address: "192.168.1.300" is not an IP address; write four numbers from 0 to 255',
    ),
    "address_port": (
        "sparks: {a: {address: 'spark:22'}}",
        f'{A}/address: "spark:22" holds a port; write it as ssh: {{port: ...}}',
    ),
    "address_user": (
        "sparks: {a: {address: me@spark}}",
        f'{A}/address: "me@spark" holds a user name; write it as ssh: {{user: ...}}',
    ),
    "address_name": (
        "sparks: {a: {address: spark_1}}",
        f'{A}/address: "spark_1" is not a host name or IP address; '
        "use letters, digits, dots and dashes",
    ),
    "address_option": (
        "sparks: {a: {address: -oProxyCommand=x}}",
        f'{A}/address: "-oProxyCommand=x" is not a host name or IP address; '
        "use letters, digits, dots and dashes",
    ),
    "same_address": (
        "sparks: {a: {address: 10.0.0.1}, b: {address: 10.0.0.1}}",
        "sparks.yaml: sparks/b/address: 10.0.0.1 is the address of a too; give each spark its own",
    ),
    "same_name_spelled_differently": (
        "sparks: {a: {address: Spark.lan}, b: {address: spark.lan.}}",
        "sparks.yaml: sparks/b/address: spark.lan. is the address of a too; "
        "give each spark its own",
    ),
    "same_ipv6": (
        "sparks: {a: {address: 'fd00::1'}, b: {address: 'FD00:0:0::1'}}",
        "sparks.yaml: sparks/b/address: FD00:0:0::1 is the address of a too; "
        "give each spark its own",
    ),
    "group_all": (
        one("groups: [all]"),
        f"{A}/groups/0: all is a group that holds every spark already; remove it",
    ),
    "group_hidden": (
        one("groups: [_x]"),
        f'{A}/groups/0: "_x" cannot name a group; use letters, digits, dot, dash and _',
    ),
    "group_is_spark": (
        one("groups: [a]"),
        f"{A}/groups: the group a has the name of a spark; call one of them differently",
    ),
    "group_number": (
        one("groups: [1]"),
        f"{A}/groups/0: must be text, not a number; put it in quotes",
    ),
    # ssh and sudo
    "ssh_unknown": (one("ssh: {usr: x}"), f"{A}/ssh: unknown key usr; did you mean user?"),
    "ssh_password": (
        one("ssh: {password: x}"),
        f"{A}/ssh: unknown key password; sparkwright logs in with keys; see: ssh-copy-id",
    ),
    "ssh_text": (one("ssh: me@host"), f"{A}/ssh: must be a map, not text"),
    "ssh_user": (
        one('ssh: {user: "a b"}'),
        f'{A}/ssh/user: "a b" is not a user name; use letters, digits, dot, dash and _',
    ),
    "ssh_user_number": (
        one("ssh: {user: 1000}"),
        f"{A}/ssh/user: must be text, not a number; put it in quotes",
    ),
    "port_text": (
        one('ssh: {port: "22"}'),
        f"{A}/ssh/port: must be a whole number, not text; remove the quotes",
    ),
    "port_bool": (
        one("ssh: {port: true}"),
        f"{A}/ssh/port: must be a whole number, not true",
    ),
    "port_fraction": (
        one("ssh: {port: 22.5}"),
        f"{A}/ssh/port: must be a whole number, not a number",
    ),
    "port_big": (one("ssh: {port: 65536}"), f"{A}/ssh/port: must be 1 to 65535, not 65536"),
    "host_keys_off": (
        one("ssh: {host_keys: off}"),
        f'{A}/ssh/host_keys: must be strict or accept-new, not "off"; host keys are always checked',
    ),
    "host_keys_false": (
        one("ssh: {host_keys: false}"),
        f"{A}/ssh/host_keys: must be text, not false; put it in quotes",
    ),
    "jump_chain": (
        one('ssh: {jump: "a,b"}'),
        f"{A}/ssh/jump: must be one hop; "
        "for more, put ProxyCommand into a file and name it: config",
    ),
    "jump_option": (
        one('ssh: {jump: "-oProxyCommand=x"}'),
        f'{A}/ssh/jump: must be user@host:port, not "-oProxyCommand=x"; '
        "user and port may be left out",
    ),
    "jump_shell": (
        one('ssh: {jump: "a;id"}'),
        f'{A}/ssh/jump: must be user@host:port, not "a;id"; user and port may be left out',
    ),
    "jump_port": (
        one("ssh: {jump: 'a:70000'}"),
        f"{A}/ssh/jump: has port 70000; ports are 1 to 65535",
    ),
    "key_percent": (
        one('ssh: {key: "~/%h"}'),
        f"{A}/ssh/key: ~/%h holds a quote, backslash or percent sign; ssh cannot take it; "
        "rename it",
    ),
    "sudo_password": (
        one("sudo: {password: hunter2}"),
        f"{A}/sudo: unknown key password; "
        "no secrets in this file; write password_env: NAME_OF_A_VARIABLE",
    ),
    "sudo_secret": (
        one("sudo: {password_env: hunter2}"),
        f"{A}/sudo/password_env: must be the NAME of an environment variable (A-Z, 0-9, _), "
        "never the password; write password_env: SPARK_SUDO_PASSWORD",
    ),
    "sudo_true": (one("sudo: true"), f"{A}/sudo: must be a map, not true"),
    # settings
    "setting_unknown": (
        one("settings: {memory_reserve: 1}"),
        f"{A}/settings/memory_reserve: unknown setting memory_reserve; "
        "did you mean memory_reserve_gib?",
    ),
    "setting_text": (
        one('settings: {memory_reserve_gib: "12"}'),
        f"{A}/settings/memory_reserve_gib: must be a whole number, not text; remove the quotes",
    ),
    "setting_bool": (
        one("settings: {gpu_required: no}"),
        f"{A}/settings/gpu_required: must be true or false, not text",
    ),
    "setting_int_bool": (
        one("settings: {gpu_required: 1}"),
        f"{A}/settings/gpu_required: must be true or false, not a number",
    ),
    "setting_list_item": (
        one("settings: {llama_cpp_cmake_flags: [1]}"),
        f"{A}/settings/llama_cpp_cmake_flags: must hold only text, not a number; put it in quotes",
    ),
    "setting_lock": (
        one("settings: {lock_file: x}"),
        f"{A}/settings/lock_file: is not a setting here; "
        "write artifacts: {lock: ...} at the top instead",
    ),
    "setting_cluster": (
        one("settings: {cluster: {}}"),
        f"{A}/settings/cluster: is not a setting here; write clusters: at the top instead",
    ),
    "setting_rollout": (
        one("settings: {rollout_batch: 2}"),
        f"{A}/settings/rollout_batch: is not a setting here; "
        "write rollout: {batch: N} at the top instead",
    ),
    "setting_ssh": (
        one("settings: {ssh_user: x}"),
        f"{A}/settings/ssh_user: is not a setting here; write it under ssh: instead",
    ),
    "setting_listen": (
        one("settings: {listen: eth0}"),
        f'{A}/settings/listen: must be an IP address of the spark, not "eth0"; '
        "127.0.0.1 for itself alone, 0.0.0.0 for every network",
    ),
    "setting_verify": (
        one("settings: {verify: fats}"),
        f'{A}/settings/verify: must be fast or deep, not "fats"; did you mean fast?',
    ),
    "default_setting": (
        "defaults: {settings: {lissten: x}}" + GOOD,
        "sparks.yaml: defaults/settings/lissten: unknown setting lissten; did you mean listen?",
    ),
    # serve
    "no_recipe": (
        served("gpt-oss-12b"),
        f"{A}/serve/0: no recipe named gpt-oss-12b; did you mean gpt-oss-120b?",
    ),
    "serve_text": (one("serve: qwen"), f"{A}/serve: must be a list, not text"),
    "serve_number": (
        served("8080"),
        f"{A}/serve/0: must be a recipe's name or a map; write - name of a recipe",
    ),
    "serve_no_name": (
        served("{port: 9000}"),
        f"{A}/serve/0: recipe is missing; add recipe: (text)",
    ),
    "serve_unknown": (
        served("{recipe: qwen, prot: 1}"),
        f"{A}/serve/0: unknown key prot; did you mean port?",
    ),
    "serve_port": (
        served("{recipe: qwen, port: 0}"),
        f"{A}/serve/0/port: must be 1 to 65535, not 0",
    ),
    "serve_state": (
        served("{recipe: qwen, state: off}"),
        f'{A}/serve/0/state: must be running or standby, not "off"; known: running, standby',
    ),
    "serve_api_key": (
        served("{recipe: qwen, api_key: hunter2}"),
        f'{A}/serve/0/api_key: must be none, generate or open, not "hunter2"; '
        "known: generate, none, open",
    ),
    "twice": (
        served("qwen", "{recipe: qwen, port: 9000}"),
        f"{A}/serve/1: qwen is served twice; a recipe can be there once; keep one",
    ),
    "same_recipe_port": (
        served("gpt-oss-120b", "nemotron"),
        f"{A}/serve/1: port 8080 is taken by gpt-oss-120b; write {{recipe: nemotron, port: 8081}}",
    ),
    "clash_with_override": (
        served("gpt-oss-120b", "{recipe: qwen, port: 8080, state: standby}"),
        f"{A}/serve/1: port 8080 is taken by gpt-oss-120b; write {{recipe: qwen, port: 8081}}",
    ),
    "open_door": (
        served("{recipe: qwen, listen: 0.0.0.0}"),
        f"{A}/serve/0: listens on 0.0.0.0 with api_key none; "
        "set api_key: generate, or api_key: open to say that everybody may ask",
    ),
    "open_door_by_setting": (
        one("settings: {listen: '::'}\n    serve: [qwen]"),
        f"{A}/serve/0: listens on :: with api_key none; "
        "set api_key: generate, or api_key: open to say that everybody may ask",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_fleet_says_where_what_and_what_to_do(project: Path, case: str) -> None:
    text, message = BAD[case]
    assert errors(project, text) == [message.replace("{dir}", str(project))]


def test_the_message_of_the_specification(project: Path) -> None:
    text = "sparks: {spark-2: {address: 10.0.0.2, serve: [gpt-oss-12b]}}"
    assert errors(project, text) == [
        "sparks.yaml: sparks/spark-2/serve/0: no recipe named gpt-oss-12b; "
        "did you mean gpt-oss-120b?"
    ]


def test_every_problem_is_told_at_once_also_those_of_recipes(project: Path) -> None:
    (project / "recipes/broken.yaml").write_text(RECIPE.format(port=0))
    text = """
artifacts: {from: mirror}
defaults: {ssh: {port: 0}}
colour: red
sparks:
  a: {address: 10.0.0.1, sudo: {password: x}, serve: [broken, nope]}
  b: {address: 10.0.0.1, ssh: {host_keys: no}, settings: {listne: x}}
"""
    found = errors(project, text)
    assert len(found) == 9, found
    assert "recipes/broken.yaml: port: must be 1 to 65535, not 0" in found
    # A broken recipe is there: it is not reported as unknown as well.
    assert not [line for line in found if "no recipe named broken" in line]


def test_no_message_repeats_a_secret(project: Path) -> None:
    for line in ("sudo: {password: hunter2}", "sudo: {password_env: hunter2}"):
        assert "hunter2" not in "\n".join(errors(project, one(line)))


def test_a_missing_fleet_file_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(SparkwrightError) as error:
        load_fleet(tmp_path / "sparks.yaml", SETTINGS)
    assert str(error.value) == (
        "sparks.yaml: no such file; cp sparks.example.yaml sparks.yaml, then edit it"
    )


def test_an_empty_fleet_file_says_how_to_fill_it(project: Path) -> None:
    assert errors(project, "# later\n") == [
        "sparks.yaml: the file is empty; cp sparks.example.yaml sparks.yaml, then edit it"
    ]


def test_a_spark_needs_an_address_only(project: Path) -> None:
    fleet = load(project, "sparks: {a: {address: 10.0.0.1}}")
    (spark,) = fleet.sparks
    assert (spark.name, spark.address, spark.ssh) == ("a", "10.0.0.1", Ssh())
    assert (spark.serve, spark.settings, spark.groups) == ((), {}, ())
    assert spark.sudo_password_env is None
    assert fleet.recipe_dirs == (project / "recipes",)
    assert fleet.artifacts == Artifacts("upstream")


def test_defaults_apply_and_a_spark_overrides_single_keys(project: Path) -> None:
    fleet = load(
        project,
        """
defaults:
  ssh: {user: u, port: 2222, jump: b}
  sudo: {password_env: PW}
  settings: {memory_reserve_gib: 8, verify: deep}
  groups: [lab]
sparks:
  a: {address: 10.0.0.1}
  b:
    address: fd00::1
    ssh: {user: v, jump: none}
    settings: {verify: fast, ratio: 1, hub_endpoint: "http://x"}
    groups: [lab, rack]
""",
    )
    a, b = fleet.sparks
    assert a.ssh == Ssh(user="u", port=2222, jump="b")
    assert b.ssh == Ssh(user="v", port=2222)
    assert (a.sudo_password_env, b.sudo_password_env) == ("PW", "PW")
    assert a.settings == {"memory_reserve_gib": 8, "verify": "deep"}
    assert b.settings == {
        "memory_reserve_gib": 8,
        "verify": "fast",
        "ratio": 1,
        "hub_endpoint": "http://x",
    }
    assert (a.groups, b.groups) == (("lab",), ("lab", "rack"))


def test_serve_takes_names_and_maps(project: Path) -> None:
    items = ("gpt-oss-120b", "{recipe: nemotron, port: 9000, state: standby, api_key: open}")
    assert load(project, served(*items)).sparks[0].serve == (
        Served("gpt-oss-120b"),
        Served("nemotron", port=9000, api_key="open", state="standby"),
    )


@pytest.mark.parametrize("key", ["generate", "open"])
def test_a_network_address_is_fine_with_a_key_or_said_openly(project: Path, key: str) -> None:
    load(project, served(f"{{recipe: qwen, listen: 0.0.0.0, api_key: {key}}}"))
    load(project, one(f"settings: {{listen: 0.0.0.0, api_key: {key}}}\n    serve: [qwen]"))


@pytest.mark.parametrize("listen", ["127.0.0.2", "'::1'", "localhost"])
def test_loopback_needs_no_key(project: Path, listen: str) -> None:
    load(project, served(f"{{recipe: qwen, listen: {listen}}}"))


@pytest.mark.parametrize("jump", ["b", "me@b", "me@b:22", "10.0.0.9:22", "'me@[fd00::9]:22'"])
def test_jump_hosts_as_ssh_writes_them(project: Path, jump: str) -> None:
    assert load(project, one(f"ssh: {{jump: {jump}}}")).sparks[0].ssh.jump == jump.strip("'")


def test_the_first_recipe_directory_wins(project: Path) -> None:
    (project / "mine").mkdir()
    (project / "mine/qwen.yaml").write_text(RECIPE.format(port=8080))
    text = "recipes: [mine, recipes]\n" + served("gpt-oss-120b", "qwen")
    assert errors(project, text) == [
        f"{A}/serve/1: port 8080 is taken by gpt-oss-120b; write {{recipe: qwen, port: 8081}}"
    ]


def test_paths_are_relative_to_the_fleet_file(project: Path) -> None:
    fleet = load(project, "artifacts: {lock: x/my.lock.yaml}\n" + one(""))
    assert fleet.lock == project / "x/my.lock.yaml"


def test_a_fleet_elsewhere_uses_the_projects_recipes_and_lock(tmp_path: Path) -> None:
    fleet = load(tmp_path, one("serve: [gpt-oss-120b-llamacpp]"))
    assert fleet.recipe_dirs == (PROJECT / "recipes",)
    assert fleet.lock == PROJECT / "artifacts.lock.yaml"


def uncommented(text: str) -> str:
    """The example with its commented-out keys live."""
    return re.sub(r"^( *)# ((?:  )*[a-z_-]+:(?: |$))", r"\1\2", text, flags=re.MULTILINE)


def keys(value: object) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*(keys(item) for item in value.values()))
    return set().union(*(keys(item) for item in value)) if isinstance(value, list) else set()


def test_the_example_loads_as_it_is_and_with_every_comment_live(project: Path) -> None:
    text = (PROJECT / "sparks.example.yaml").read_text()
    (project / "recipes/gpt-oss-120b-llamacpp.yaml").write_text(RECIPE.format(port=8080))
    settings = settings_defaults(PROJECT / "group_data/all.py")
    for content in (text, uncommented(text)):
        (project / "sparks.yaml").write_text(content)
        assert [s.name for s in load_fleet(project / "sparks.yaml", settings).sparks] == [
            "spark-1",
            "spark-2",
        ]


def test_the_example_shows_every_key_of_the_schema() -> None:
    shown = keys(yaml.safe_load(uncommented((PROJECT / "sparks.example.yaml").read_text())))
    schema = {*Ssh.__dataclass_fields__, *Served.__dataclass_fields__}
    schema |= {"artifacts", "from", "lock", "recipes", "defaults", "sparks", "address", "groups"}
    schema |= {"ssh", "sudo", "password_env", "settings", "serve"}
    schema |= {"rollout", "batch", "clusters", "fabric", *Fabric.__dataclass_fields__}
    assert schema <= shown, schema - shown


def test_defaults_are_the_public_names_of_group_data(tmp_path: Path) -> None:
    path = tmp_path / "all.py"
    path.write_text(
        "import os\nfrom pathlib import Path as P\n\na = 1\n_sudo = True\nb: list[str] = []\n"
        "\ndef helper() -> int:\n    return 1\n"
    )
    assert settings_defaults(path) == {"a": 1, "b": []}
