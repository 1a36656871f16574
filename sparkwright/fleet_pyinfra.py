"""From the fleet to pyinfra: groups, hosts and their data, with what only this laptop knows."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path

from sparkwright.errors import Problems, SparkwrightError
from sparkwright.fleet import Fleet, Spark, load_fleet
from sparkwright.fleet_clusters import cluster_data
from sparkwright.fleet_endpoints import peers
from sparkwright.fleet_jump import configured_jump, write_ssh_config
from sparkwright.fleet_settings import settings_defaults
from sparkwright.fleet_ssh import Ssh
from sparkwright.limits import refuse_pyinfra_options

# As bundle_key.NAME; that module loads an OpenPGP library, which only an air gap needs.
KEY_NAME = "bundle-key.asc"
Groups = dict[str, list[tuple[str, dict[str, object]]]]


def groups_for_pyinfra(project: Path) -> Groups:
    """The groups of the fleet file that SPARKS_FILE names, else of sparks.yaml beside inventory.py.

    + project: the directory of inventory.py
    + raises SystemExit with the message, so that pyinfra ends before it connects to anything;
      also when its --limit names nobody, with which it would do nothing and exit with 0
    """
    named = os.environ.get("SPARKS_FILE")
    path = Path(named).expanduser() if named else project / "sparks.yaml"
    try:
        defaults = settings_defaults(project / "group_data/all.py")
        groups = to_pyinfra(load_fleet(path, defaults))
        members = {name: [host for host, _ in hosts] for name, hosts in groups.items()}
        refuse_pyinfra_options(members)
        return groups
    except SparkwrightError as error:
        raise SystemExit(f"{error}\nNothing was contacted.") from None


def to_pyinfra(fleet: Fleet) -> Groups:
    """Group name -> (host name, data); every spark is in "sparks".

    Reads the environment (sudo passwords) and looks at key files; writes a ssh configuration for
    sparks behind a jump host. Raises SparkwrightError with every problem.
    """
    problems = Problems()
    groups: Groups = {"sparks": []}
    for spark in fleet.sparks:
        host = (spark.name, _data(fleet, spark, problems))
        for group in ("sparks", *spark.groups):
            groups.setdefault(group, []).append(host)
    problems.raise_if_any()
    return groups


def _data(fleet: Fleet, spark: Spark, problems: Problems) -> dict[str, object]:
    where = f"{fleet.path.name}: sparks/{spark.name}"
    data: dict[str, object] = dict(spark.settings)
    data["lock_file"] = str(fleet.lock)
    data["recipe_dirs"] = [str(path) for path in fleet.recipe_dirs]
    data["serve"] = [dataclasses.asdict(served) for served in spark.serve]
    data["peers"] = peers(fleet, spark.name)
    data["cluster"] = cluster_data(fleet.clusters, spark.name)
    data["rollout_batch"] = fleet.rollout_batch
    data |= _artifacts_data(fleet)
    data |= _ssh_data(fleet, spark, where, problems)
    if spark.sudo_password_env:
        password = os.environ.get(spark.sudo_password_env)
        if password:
            data["_sudo_password"] = password
        else:
            name = spark.sudo_password_env
            hint = f"read -rs {name} && export {name}"
            problems.add(f"{where}/sudo", f"the variable {name} is not set", hint)
    return data


def _artifacts_data(fleet: Fleet) -> dict[str, object]:
    found = fleet.artifacts
    return {
        "artifacts_from": found.source,
        "artifacts_url": found.url,
        "artifacts_path": found.path,
        "artifacts_library": found.library,
        "artifacts_library_copy": found.library_copy,
        "artifacts_key": str(fleet.path.parent / KEY_NAME),
    }


def _ssh_data(fleet: Fleet, spark: Spark, where: str, problems: Problems) -> dict[str, object]:
    ssh = _absolute(spark.ssh, fleet.path.parent)
    _check_files(spark, ssh, where, problems)
    data: dict[str, object] = {
        "ssh_hostname": spark.address,
        "ssh_port": ssh.port,
        "ssh_known_hosts_file": ssh.known_hosts,
        # pyinfra's own default is accept-new, whatever ~/.ssh/config says.
        "ssh_strict_host_key_checking": "yes" if ssh.host_keys == "strict" else ssh.host_keys,
    }
    optional = {"ssh_user": ssh.user, "ssh_key": ssh.key, "ssh_config_file": ssh.config}
    data |= {name: value for name, value in optional.items() if value}
    jump = ssh.jump or configured_jump(ssh, spark.address)
    if jump and not len(problems):
        jumping = dataclasses.replace(ssh, jump=jump)
        try:
            data["ssh_config_file"] = str(write_ssh_config(fleet.path, spark.name, jumping))
        except OSError as error:
            what = f"cannot write the configuration for the jump host ({error})"
            problems.add(f"{where}/ssh/jump", what, "set XDG_CACHE_HOME to a writable directory")
    return data


def _absolute(ssh: Ssh, base: Path) -> Ssh:
    """Paths without ~, relative ones taken from the directory of sparks.yaml."""
    return dataclasses.replace(
        ssh,
        key=str(base / Path(ssh.key).expanduser()) if ssh.key else None,
        config=str(base / Path(ssh.config).expanduser()) if ssh.config else None,
        known_hosts=str(base / Path(ssh.known_hosts).expanduser()),
    )


def _check_files(spark: Spark, ssh: Ssh, where: str, problems: Problems) -> None:
    """A missing key of one host ends pyinfra's run for all, so it is found here."""
    files: Mapping[str, str | None] = {"key": ssh.key, "config": ssh.config}
    for name, path in files.items():
        if path and not os.access(path, os.R_OK):
            hint = "correct the path; it is relative to the fleet file"
            problems.add(f"{where}/ssh/{name}", f"no readable file {path}", hint)
    if Path(ssh.known_hosts).exists():
        return
    if ssh.host_keys == "accept-new":
        # paramiko only appends: without the file, the first key could not be remembered.
        Path(ssh.known_hosts).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        Path(ssh.known_hosts).touch(mode=0o600)
        return
    user = f"{ssh.user}@" if ssh.user else ""
    hint = f"log in once by hand (ssh {user}{spark.address}), or set host_keys: accept-new"
    problems.add(f"{where}/ssh/known_hosts", f"no file {ssh.known_hosts}", hint)
