"""The systemd unit of one served model: data in, text out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sparkwright import container_units, member_units
from sparkwright.errors import Problems
from sparkwright.member_units import PAIR, MemberUnit
from sparkwright.quoting import environment, exec_line, plain_text
from sparkwright.unit_sections import HARDENING, HEADER, HIDDEN, PLAIN, SERVICE_POLICY

_NAME = re.compile(r"[A-Za-z0-9:_.-]+")
_USER = re.compile(r"[a-z_][a-z0-9_-]*")
_DEVICE = re.compile(r"/dev(/[A-Za-z0-9_.:-]+)+|(char|block)-[A-Za-z0-9_*-]+")
_ALWAYS_THERE = ("127.0.0.1", "::1", "localhost", "0.0.0.0", "::")  # noqa: S104
_OWN_ENV = "SPARKWRIGHT_DIGEST"


@dataclass(frozen=True)
class Service:
    """Everything that a unit's text is made of.

    + name: unit name without ".service"; argv: program first, absolute path
    + memory_gib: budget in GiB, waited for before the start
    + load_timeout_s: seconds from start to a 200 on /health
    + conflicts: units that must not run beside this one, without ".service"
    + api_key_file: the file among argv's words; no AssertPathExists= for it, since systemd 252 does
      not name what failed and llama-server does
    + devices: DeviceAllow= entries ("/dev/nvidia0", "char-nvidia-uvm"); all others are denied, and
      one that is absent is passed over by systemd with a line in its debug log
    + groups: supplementary groups; each must exist on the machine
    + digest: what the running process is compared with; "" while it is being computed
    + container: argv is a `docker run`, which the engine's own words make (container_units.py)
    + env_file: file with secrets as variables, which systemd reads as root
    + health: path that answers 200 when it serves
    + restart: of Restart=; restart_sec, memory_wait_s: seconds
    + library: directories of a mounted library that links in weights_dir lead to
    + member: this machine's part of a model that several serve together
    """

    name: str
    description: str
    user: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    port: int
    listen: str
    memory_gib: float
    load_timeout_s: int
    conflicts: tuple[str, ...]
    weights_dir: str
    cache_dir: str
    api_key_file: str | None
    lib_dir: str
    ollama_url: str
    devices: tuple[str, ...]
    digest: str
    groups: tuple[str, ...] = ()
    # A failed start leaves memory pinned for tens of seconds to minutes (vllm#45179,
    # MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#193): restart late, and wait for it.
    restart: str = "on-failure"
    restart_sec: int = 60
    memory_wait_s: int = 300
    container: bool = False
    env_file: str | None = None
    health: str = "/health"
    library: tuple[str, ...] = ()
    member: MemberUnit | None = None


def render_unit(service: Service) -> str:
    """The unit file's text; equal services give equal text.

    Raises SparkwrightError with every value that a unit cannot carry or that would not work.
    """
    _check(service)
    lines = [
        HEADER,
        "",
        *_unit_section(service),
        "",
        *_service_section(service),
        # A part of several is started by the link of the head, when all of them are there.
        *([] if service.member else ["", "[Install]", "WantedBy=multi-user.target"]),
    ]
    return "\n".join(lines) + "\n"


def _unit_section(service: Service) -> list[str]:
    others = [f"{name}.service" for name in sorted(service.conflicts)]
    after = ["nvidia-persistenced.service", "ollama.service", *others]
    lines = ["[Unit]", f"Description={plain_text(service.description)}"]
    lines += [f"Conflicts={' '.join(others)}"] if others else []
    # Conflicts= alone gives no order; with After= the stop job of the other one runs first.
    lines.append(f"After={' '.join(after)}")
    if service.listen not in _ALWAYS_THERE:
        # Only an address of a link must be waited for: with an unplugged port, waiting for the
        # network lasts 120 s at every boot (systemd-networkd-wait-online(8), --timeout=).
        lines += ["Wants=network-online.target", "After=network-online.target"]
    lines += container_units.UNIT if service.container else []
    # A mount unit is pulled in even when an automount or nobody has mounted it (systemd.unit(5)).
    mounts = (service.weights_dir, service.cache_dir, *service.library)
    lines.append(f"RequiresMountsFor={' '.join(mounts)}")
    lines += member_units.unit_lines(service.member) if service.member else []
    # A crash loop of long loads is how machines wedge (eugr/spark-vllm-docker#257: 35 restarts).
    return [*lines, "StartLimitIntervalSec=1h", "StartLimitBurst=3"]


def _service_section(service: Service) -> list[str]:
    # The sum of the gates' own limits, and a minute for sync and Ollama: theirs strike first and
    # say why.
    timeout = service.memory_wait_s + service.load_timeout_s + 60 + member_units.wait_s(service)
    if service.container:
        gates = _memory_gate(service), _health_gate(service)
        return container_units.section(service, *gates, timeout)
    cache = service.cache_dir
    env = {"HOME": cache, "XDG_CACHE_HOME": cache, "CUDA_CACHE_PATH": f"{cache}/nv"}
    env |= {**service.env, _OWN_ENV: service.digest}
    lines = ["[Service]", "Type=exec", f"User={service.user}"]
    lines += [f"SupplementaryGroups={' '.join(service.groups)}"] if service.groups else []
    lines += [environment(name, value) for name, value in sorted(env.items())]
    lines += [f"EnvironmentFile={service.env_file}"] if service.env_file else []
    lines += [*_commands(service), f"TimeoutStartSec={timeout}"]
    lines += [f"RestartSec={service.restart_sec}", *member_units.policy(service, SERVICE_POLICY)]
    # CUDA memory escapes this limit (minefield#57): it stops leaks of ordinary memory only.
    lines.append(f"MemoryMax={int(service.memory_gib * 1024)}M")
    lines += [*HARDENING, f"ReadOnlyPaths={service.weights_dir}", f"ReadWritePaths={cache}"]
    return [*lines, "DevicePolicy=closed", *(f"DeviceAllow={path} rw" for path in service.devices)]


def _commands(service: Service) -> list[str]:
    gates = _memory_gate(service), _health_gate(service)
    main = exec_line(service.argv)
    if service.member:
        return member_units.service_lines(service.member, gates[0], main, gates[1])
    return [f"ExecStartPre={gates[0]}", f"ExecStart={main}", f"ExecStartPost={gates[1]}"]


def _memory_gate(service: Service) -> str:
    words = ["/usr/bin/python3", "-I", f"{service.lib_dir}/memory_gate.py"]
    words += ["--need-gib", f"{service.memory_gib:g}", "--wait-s", str(service.memory_wait_s)]
    if service.ollama_url:
        words += ["--ollama-url", service.ollama_url]
    return exec_line(words, root=True)


def _health_gate(service: Service) -> str:
    words = ["/usr/bin/python3", "-I", f"{service.lib_dir}/health_gate.py"]
    words += ["--host", _probe_host(service.listen), "--port", str(service.port)]
    words += ["--path", service.health] if service.health != "/health" else []
    return exec_line([*words, "--timeout-s", str(service.load_timeout_s)])


def _probe_host(listen: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listen, listen)  # noqa: S104


def _check(service: Service) -> None:
    problems, where = Problems(), f"unit {service.name}"
    for name in (service.name, *service.conflicts):
        if not _NAME.fullmatch(name) or name.endswith(".service"):
            problems.add(where, f"{name!r} is not a unit name", "use letters, digits, '-', '_'")
    if service.name in service.conflicts:
        problems.add(where, "it excludes itself", "remove it from its conflicts")
    for user in (service.user, *service.groups):
        if not _USER.fullmatch(user):
            problems.add(where, f"{user!r} is not a user or group name", "use a plain one")
    if service.port < 1024:
        problems.add(where, f"port {service.port} needs privileges", "use 1024 or above")
    for name in (_OWN_ENV, PAIR):
        if name in service.env:
            problems.add(where, f"env sets {name}", "remove it; sparkwright sets it")
    for device in service.devices:
        if not _DEVICE.fullmatch(device):
            problems.add(where, f"{device!r} is not a device", "say /dev/… or char-…")
    if service.api_key_file is not None and service.api_key_file not in service.argv:
        problems.add(where, f"{service.api_key_file} is not in its command", "pass it to argv()")
    _check_paths(service, where, problems)
    problems.raise_if_any()


def _check_paths(service: Service, where: str, problems: Problems) -> None:
    paths = [service.weights_dir, service.cache_dir, service.lib_dir, *service.library]
    paths += [path for path in (service.api_key_file, service.env_file) if path is not None]
    for path in paths:
        if not PLAIN.fullmatch(path) or "/." in path:
            problems.add(where, f"{path!r} is not a plain absolute path", "rename it")
    for path in [*paths, *service.argv[:1]]:
        if f"{path}/".startswith(HIDDEN):
            problems.add(where, f"{path} is hidden from services", "move it below /srv or /opt")
