"""Groups, order and host keys: what pyinfra makes of an inventory without being asked."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from sparkwright.paths import PROJECT
from tests.traps.runs import DRIFT, ONE, THREE, TWO, Fakes, command

FLEET = """
defaults: {{ssh: {{user: me, known_hosts: {place}/known_hosts, config: {place}/config}}}}
sparks:
  spark-1: {{address: 192.0.2.1, groups: [{group}]}}
  spark-2: {{address: 192.0.2.2}}
"""


def site(place: Path, group: str = "rack-a") -> dict[str, str]:
    """The environment that names a fleet file whose user trusts every host key."""
    (place / "known_hosts").touch()
    (place / "config").write_text("Host *\n  StrictHostKeyChecking accept-new\n")
    (place / "sparks.yaml").write_text(FLEET.format(place=place, group=group))
    return {"SPARKS_FILE": str(place / "sparks.yaml")}


def hosts(env: dict[str, str]) -> dict[str, dict[str, object]]:
    """Host name -> what pyinfra made of it."""
    run = command("pyinfra", "inventory.py", "debug-inventory", "--json", env=env)
    assert run.returncode == 0, run.stderr
    return {host["name"]: host for host in json.loads(run.stdout)}


def test_only_the_fleets_groups_are_groups(tmp_path: Path) -> None:
    """Every public list of inventory.py would be one, and its words would be hosts."""
    found = hosts(site(tmp_path))
    assert set(found) == {"spark-1", "spark-2"}
    assert set(found["spark-1"]["groups"]) == {"sparks", "rack-a", "inventory"}  # type: ignore[call-overload]
    assert set(found["spark-2"]["groups"]) == {"sparks", "inventory"}  # type: ignore[call-overload]


def test_inventory_py_binds_no_public_name() -> None:
    bound = set()
    for node in ast.walk(ast.parse((PROJECT / "inventory.py").read_text())):
        if isinstance(node, ast.Import | ast.ImportFrom):
            bound |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
    assert bound
    assert [name for name in bound if not name.startswith("_")] == []


@pytest.mark.parametrize("group", ["all", "inventory"])
def test_a_group_that_would_drop_hosts_is_refused(tmp_path: Path, group: str) -> None:
    """With a variable `all`, pyinfra silently drops every host that is not in it."""
    run = command("pyinfra", "inventory.py", "debug-inventory", env=site(tmp_path, group))
    assert run.returncode == 1
    assert f"{group}" in run.stderr
    assert "Nothing was contacted." in run.stderr


def test_host_keys_are_strict_whatever_the_users_configuration_says(tmp_path: Path) -> None:
    """pyinfra's default is accept-new, and it reads no StrictHostKeyChecking at all."""
    for host in hosts(site(tmp_path)).values():
        assert host["data"]["ssh_strict_host_key_checking"] == "yes"  # type: ignore[index]
        assert host["data"]["ssh_known_hosts_file"] == f"{tmp_path}/known_hosts"  # type: ignore[index]


def test_a_spark_in_no_known_hosts_file_is_refused(tmp_path: Path) -> None:
    env = site(tmp_path)
    (tmp_path / "known_hosts").unlink()
    run = command("pyinfra", "inventory.py", "deploy.py", "-y", env=env)
    assert run.returncode == 1
    assert "log in once by hand (ssh me@192.0.2.1)" in run.stderr


def plan(fakes: Fakes, seed: str) -> tuple[object, list[str]]:
    """(pyinfra's plan, our findings) of a dry run; hosts are sorted, operations are not."""
    run = fakes.pyinfra("--dry", "--json", env={"PYTHONHASHSEED": seed})
    assert run.returncode == 0, run.stderr
    rows = json.loads(run.stdout)["plan"]
    operations = [(row["name"], sorted(row["hosts_with_change"])) for row in rows]
    return operations, sorted(json.dumps(row) for row in fakes.findings())


def test_the_order_of_hosts_has_no_effect(tmp_path: Path) -> None:
    """pyinfra keeps hosts in a set."""
    fakes = Fakes.write(tmp_path, {ONE: {}, TWO: {"answers": DRIFT}, THREE: {"answers": DRIFT}})
    first, second = plan(fakes, "1"), plan(fakes, "2")
    assert first == second
    assert ("base | Set kernel values", [TWO, THREE]) in first[0]  # type: ignore[operator]
