"""clusters in sparks.yaml: a table of bad ones with the exact messages, and what a good one is."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkwright.errors import SparkwrightError
from sparkwright.fleet import Fleet, load_fleet
from sparkwright.fleet_clusters import Cluster, Member, cluster_data
from sparkwright.fleet_endpoints import peers
from sparkwright.fleet_fabric import Fabric
from sparkwright.fleet_pyinfra import to_pyinfra
from sparkwright.fleet_serve import Served

SETTINGS: dict[str, object] = {"listen": "127.0.0.1", "api_key": "none"}
RECIPE = """
engine: llama.cpp
description: A model
port: 8080
memory_gib: 1
context: 4096
weights: {repo: a/b, revision: main, license: mit}
sparks: 2
acceptance: {question: "2+2?", expect: "4"}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/model.yaml").write_text(RECIPE)
    (tmp_path / "known_hosts").touch()
    return tmp_path


def load(project: Path, clusters: str, a: str = "10.0.0.1") -> Fleet:
    """A fleet of a, b, c and d with these clusters."""
    path = project / "sparks.yaml"
    sparks = f"a: {{address: '{a}'}}\n" + "\n".join(
        f"  {name}: {{address: 10.0.0.{at}}}" for at, name in enumerate("bcd", 2)
    )
    path.write_text(
        f"defaults: {{ssh: {{known_hosts: known_hosts}}}}\nsparks:\n  {sparks}\n"
        f"clusters:\n  {clusters}\n"
    )
    return load_fleet(path, SETTINGS)


def fabric(text: str, sparks: str = "[a, b]") -> str:
    return f"p: {{sparks: {sparks}, fabric: {{{text}}}}}"


P = "sparks.yaml: clusters/p"
TWO = "write networks: [192.168.100.0/24, 192.168.101.0/24]"
BAD = {
    "not a map": ("[]", "sparks.yaml: clusters/p: must be a map, not a list"),
    "no sparks": ("{}", f"{P}: sparks is missing; add sparks: (a list)"),
    "none": (
        "{sparks: []}",
        f"{P}/sparks: names 0 sparks, a cluster has 2 or more; add one, or remove the cluster",
    ),
    "one": (
        "{sparks: [a]}",
        f"{P}/sparks: names 1 spark, a cluster has 2 or more; add one, or remove the cluster",
    ),
    "unknown spark": ("{sparks: [a, bb]}", f"{P}/sparks/1: no spark named bb; did you mean b?"),
    "a number": (
        "{sparks: [a, 2]}",
        f"{P}/sparks/1: must be text, not a number; put it in quotes",
    ),
    "the same spark": (
        "{sparks: [a, a, b]}",
        f"{P}/sparks/1: a is listed twice; keep one; the order is the rank",
    ),
    "in two clusters": (
        "{sparks: [a, b]}\n  q: {sparks: [c, b], fabric: {networks: [10.1.0.0/24, 10.2.0.0/24]}}",
        "sparks.yaml: clusters/q/sparks: b is in p too; a spark is in one cluster at most",
    ),
    "unknown key": (
        "{sparks: [a, b], fabirc: {}}",
        f"{P}: unknown key fabirc; did you mean fabric?",
    ),
    "mtu beside fabric": (
        "{sparks: [a, b], mtu: 9000}",
        f"{P}: unknown key mtu; write it under fabric",
    ),
    "fabric unknown key": (
        "{sparks: [a, b], fabric: {interface: auto}}",
        f"{P}/fabric: unknown key interface; did you mean interfaces?",
    ),
    "addresses": (
        "{sparks: [a, b], fabric: {addresses: []}}",
        f"{P}/fabric: unknown key addresses; they follow from networks and the order of sparks",
    ),
    "no network": (
        "{sparks: [a, b], fabric: {networks: [10.1.0.0/24, fabric]}}",
        f'{P}/fabric/networks/1: must be an IPv4 network with its prefix, not "fabric"; {TWO}',
    ),
    "host bits": (
        "{sparks: [a, b], fabric: {networks: [10.1.0.10/24, 10.2.0.0/24]}}",
        f'{P}/fabric/networks/0: must be an IPv4 network with its prefix, not "10.1.0.10/24"; '
        f"{TWO}",
    ),
    "ipv6": (
        "{sparks: [a, b], fabric: {networks: ['fd00::/64', 10.2.0.0/24]}}",
        f'{P}/fabric/networks/0: must be an IPv4 network with its prefix, not "fd00::/64"; {TWO}',
    ),
    "loopback network": (
        "{sparks: [a, b], fabric: {networks: [127.1.0.0/24, 10.2.0.0/24]}}",
        f"{P}/fabric/networks/0: 127.1.0.0/24 is no network for machines; {TWO}",
    ),
    "too small": (
        "{sparks: [a, b], fabric: {networks: [10.1.0.0/24, 10.2.0.0/29]}}",
        f"{P}/fabric/networks/1: 10.2.0.0/29 is too small: 2 sparks take .10 to .11; use a /24",
    ),
    "too small for three": (
        "{sparks: [a, b, c, d], fabric: {networks: [10.1.0.0/24, 10.2.0.0/31]}}",
        f"{P}/fabric/networks/1: 10.2.0.0/31 is too small: 4 sparks take .10 to .13; use a /24",
    ),
    "overlap": (
        "{sparks: [a, b], fabric: {networks: [10.1.0.0/16, 10.1.9.0/24]}}",
        f"{P}/fabric/networks/1: 10.1.9.0/24 overlaps 10.1.0.0/16; "
        "each half needs a network of its own",
    ),
    "one network": (
        "{sparks: [a, b], fabric: {networks: [10.1.0.0/24]}}",
        f"{P}/fabric/networks: 1 network, and each cable has two halves; "
        "write two, or four for two cables, or name the interfaces",
    ),
    "holds ssh": (
        "{sparks: [a, b], fabric: {networks: [10.1.0.0/24, 10.0.0.0/28]}}",
        "\n".join(
            f"{P}/fabric/networks/1: 10.0.0.0/28 holds the address of {name}, 10.0.0.{at}; "
            "the fabric needs networks apart from the one for SSH"
            for at, name in enumerate("abcd", 1)
        ),
    ),
    "networks of another": (
        "{sparks: [a, b]}\n  q: {sparks: [c, d], "
        "fabric: {networks: [192.168.101.0/24, 10.2.0.0/24]}}",
        "sparks.yaml: clusters/q/fabric/networks/0: 192.168.101.0/24 overlaps 192.168.101.0/24 "
        "of p; one switch would mix them; give each its own",
    ),
    "mtu": (
        "{sparks: [a, b], fabric: {mtu: 900}}",
        f"{P}/fabric/mtu: must be 1500 to 65535, not 900",
    ),
    "interfaces word": (
        "{sparks: [a, b], fabric: {interfaces: all}}",
        f"{P}/fabric/interfaces: must be a list, not text",
    ),
    "interfaces empty": (
        "{sparks: [a, b], fabric: {interfaces:}}",
        f"{P}/fabric/interfaces: has no value; give it one, or remove the key",
    ),
    "one interface": (
        "{sparks: [a, b], fabric: {interfaces: [enp1s0f1np1]}}",
        f"{P}/fabric/interfaces: 1 name for 2 networks; "
        "name one interface a network, in the same order",
    ),
    "interface twice": (
        "{sparks: [a, b], fabric: {interfaces: [fab0, fab0]}}",
        f"{P}/fabric/interfaces: fab0 is listed twice; keep one",
    ),
    "interface lo": (
        "{sparks: [a, b], fabric: {interfaces: [lo, fab0]}}",
        f'{P}/fabric/interfaces/0: "lo" is not an interface of a cable; see: ip -brief link',
    ),
    "interface shell": (
        "{sparks: [a, b], fabric: {interfaces: [fab0, 'a;b']}}",
        f'{P}/fabric/interfaces/1: "a;b" is not an interface of a cable; see: ip -brief link',
    ),
    "unknown recipe": (
        "{sparks: [a, b], serve: [modell]}",
        f"{P}/serve/0: no recipe named modell; did you mean model?",
    ),
    "open door": (
        "{sparks: [a, b], serve: [{recipe: model, listen: 0.0.0.0}]}",
        f"{P}/serve/0: listens on 0.0.0.0 with api_key none; "
        "set api_key: generate, or api_key: open to say that everybody may ask",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_cluster_says_where_what_and_what_to_do(project: Path, case: str) -> None:
    text, message = BAD[case]
    with pytest.raises(SparkwrightError) as error:
        load(project, f"p: {text}")
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "'a b'",
            'sparks.yaml: clusters: "a b" cannot name a cluster; '
            "use letters, digits, dot, dash and _, at most 63 characters",
        ),
        ("d", "sparks.yaml: clusters/d: has the name of a spark; call one of them differently"),
    ],
)
def test_a_cluster_has_a_name_of_its_own(project: Path, name: str, message: str) -> None:
    with pytest.raises(SparkwrightError) as error:
        load(project, f"{name}: {{sparks: [a, b]}}")
    assert str(error.value) == message


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "127.0.1.1", "localhost", "LocalHost.", "::1", "0:0:0:0:0:0:0:1"],
)
def test_loopback_is_no_address_of_a_cluster(project: Path, address: str) -> None:
    load(project, "p: {sparks: [b, c]}", a=address)  # fine for a spark by itself
    with pytest.raises(SparkwrightError) as error:
        load(project, "p: {sparks: [b, a]}", a=address)
    assert str(error.value) == (
        f"{P}/sparks: a has the address {address}, which every machine has; "
        "give it the address by which the others reach it"
    )


def test_a_cluster_needs_sparks_only(project: Path) -> None:
    fleet = load(project, "p: {sparks: [b, a]}")
    assert fleet.clusters == (
        Cluster(
            "p",
            (
                Member("b", "10.0.0.2", ("192.168.100.10", "192.168.101.10")),
                Member("a", "10.0.0.1", ("192.168.100.11", "192.168.101.11")),
            ),
            Fabric(),
            (),
        ),
    )


def test_what_a_cluster_says_is_kept_in_order(project: Path) -> None:
    text = """p:
    sparks: [a, b, c]
    fabric: {networks: [10.9.0.0/16], mtu: 1500, interfaces: [fab0]}
    serve: [{recipe: model, port: 9000}]"""
    three = RECIPE.replace("sparks: 2", "sparks: 3")
    (project / "recipes/model.yaml").write_text(three)
    (found,) = load(project, text).clusters
    assert found.fabric == Fabric(("10.9.0.0/16",), 1500, ("fab0",))
    assert [m.fabric for m in found.members] == [("10.9.0.10",), ("10.9.0.11",), ("10.9.0.12",)]
    assert found.serve == (Served("model", port=9000),)


@pytest.mark.parametrize("networks", ["[10.1.0.0/28, 10.1.0.16/28]", "[10.1.0.0/24, 10.1.1.0/24]"])
def test_networks_may_be_as_small_as_the_sparks_allow(project: Path, networks: str) -> None:
    load(project, fabric(f"networks: {networks}", "[a, b, c, d]"))


def test_every_spark_learns_of_its_cluster(project: Path) -> None:
    fleet = load(project, "p: {sparks: [c, a], serve: [model]}")
    data = {name: values["cluster"] for name, values in to_pyinfra(fleet)["sparks"]}
    assert data["b"] == data["d"] == {}
    assert data["a"] == {
        "name": "p",
        "rank": 1,
        "mtu": 9000,
        "networks": ["192.168.100.0/24", "192.168.101.0/24"],
        "interfaces": "auto",
        "members": [
            {"name": "c", "address": "10.0.0.3", "fabric": ["192.168.100.10", "192.168.101.10"]},
            {"name": "a", "address": "10.0.0.1", "fabric": ["192.168.100.11", "192.168.101.11"]},
        ],
        "serve": [
            {"recipe": "model", "port": None, "listen": None, "api_key": None, "state": "running"}
        ],
    }
    assert data["c"] == {**data["a"], "rank": 0}


def test_named_interfaces_reach_the_data_as_a_list(project: Path) -> None:
    fleet = load(project, fabric("interfaces: [fab0, fab1]"))
    assert cluster_data(fleet.clusters, "a")["interfaces"] == ["fab0", "fab1"]


OWN = RECIPE.replace("sparks: 2\n", "")
CLASHES = {
    "the head's own recipe": (
        "  a: {address: 10.0.0.1, serve: [own]}\n  b: {address: 10.0.0.2}",
        "[model]",
        f"{P}/serve/0: model needs port 8080 on a, which own takes; give one of them another port",
    ),
    "a worker's own recipe on the link's port": (
        "  a: {address: 10.0.0.1}\n  b: {address: 10.0.0.2, serve: [{recipe: own, port: 28080}]}",
        "[model]",
        f"{P}/serve/0: model needs port 28080 on b, which own takes; give one of them another port",
    ),
    "the link of one and the engine of another": (
        "  a: {address: 10.0.0.1}\n  b: {address: 10.0.0.2}",
        "[{recipe: model, port: 8580}, other]",
        f"{P}/serve/1: other needs port 28580 on a, which model takes; give one of them another "
        "port",
    ),
}


@pytest.mark.parametrize("name", CLASHES)
def test_ports_of_own_recipes_and_the_clusters_are_compared(project: Path, name: str) -> None:
    sparks, serve, line = CLASHES[name]
    (project / "recipes/own.yaml").write_text(OWN)
    (project / "recipes/other.yaml").write_text(RECIPE)
    path = project / "sparks.yaml"
    path.write_text(
        f"defaults: {{ssh: {{known_hosts: known_hosts}}}}\nsparks:\n{sparks}\n"
        f"clusters:\n  p: {{sparks: [a, b], serve: {serve}}}\n"
    )
    with pytest.raises(SparkwrightError) as error:
        load_fleet(path, SETTINGS)
    assert str(error.value).count("needs port") == 1
    assert line in str(error.value)


def test_a_worker_may_have_the_recipes_port_for_itself(project: Path) -> None:
    (project / "recipes/own.yaml").write_text(OWN)
    path = project / "sparks.yaml"
    path.write_text(
        "defaults: {ssh: {known_hosts: known_hosts}}\nsparks:\n"
        "  a: {address: 10.0.0.1}\n  b: {address: 10.0.0.2, serve: [own]}\n"
        "clusters:\n  p: {sparks: [a, b], serve: [model]}\n"
    )
    assert [s.recipe for s in load_fleet(path, SETTINGS).clusters[0].serve] == ["model"]


def test_the_others_learn_what_the_head_answers(project: Path) -> None:
    """A page lists models by what the data says of the other sparks; workers answer nobody."""
    fleet = load(project, "p: {sparks: [b, a], serve: [model]}")
    found = {one["name"]: [entry["recipe"] for entry in one["serve"]] for one in peers(fleet, "c")}
    assert found == {"a": [], "b": ["model"], "d": []}
