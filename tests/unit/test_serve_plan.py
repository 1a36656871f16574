"""One unit against a machine: what differs, which commands mend it, and what is left alone."""

from __future__ import annotations

import dataclasses
import hashlib
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sparkwright import serving
from sparkwright.artifacts import HubFile
from sparkwright.errors import SparkwrightError
from sparkwright.resources import State
from sparkwright.serve_plan import ServePlan, plan
from sparkwright.site import UNIT_DIR
from sparkwright.units import Service, render_unit
from tests.unit.machine_case import (
    COMMIT,
    ITEM,
    PLACE,
    RECIPE,
    WEIGHTS,
    answers,
    item,
    service,
)

NAME = "llm-tiny.service"
FILE = f"{UNIT_DIR}/{NAME}"
SERVICE = service(answers())
DIGEST = SERVICE.digest


def file(text: str, **changes: str) -> State:
    state = {
        "type": "file",
        "owner": "root",
        "group": "root",
        "mode": "0644",
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
    }
    return {**state, **changes}


OWN_FILE = file(render_unit(SERVICE))
RUNS: State = {
    "ActiveState": "active",
    "UnitFileState": "enabled",
    "NeedDaemonReload": "no",
    "DropInPaths": "",
    "InvocationID": "cafe",
    "digest": DIGEST,
}
STANDBY = dataclasses.replace(ITEM, state="standby")
SLEEPS = {**RUNS, "ActiveState": "inactive", "UnitFileState": "disabled", "digest": ""}


def planned(
    unit: State, unit_file: State = OWN_FILE, wanted: Any = ITEM, now: Service = SERVICE
) -> ServePlan:
    return plan(wanted, now, answers(unit, unit_file))


def shells(found: ServePlan) -> list[str]:
    return [command.shell for command in found.commands]


def test_what_is_equal_is_untouched() -> None:
    assert planned(RUNS) == ServePlan((), (), False)
    assert planned(SLEEPS, wanted=STANDBY) == ServePlan((), (), False)


def test_a_new_machine_gets_the_unit_verified_written_started_and_enabled() -> None:
    found = planned({"LoadState": "not-found", "ActiveState": "inactive", "UnitFileState": ""},
                    {"type": "missing"})  # fmt: skip
    assert found.start
    assert found.drift == (
        f"{FILE}: missing, not a file",
        f"{NAME}: absent, not enabled",
        f"{NAME}: inactive, not active",
    )
    words = [
        "systemd-analyze verify",
        f'mv -fT "$t" {FILE}',
        "daemon-reload",
        "install -d -o llm",
        f"restart --no-block {NAME}",
        f"--quiet enable {NAME}",
    ]
    places = [next(i for i, s in enumerate(shells(found)) if w in s) for w in words]
    assert places == sorted(places)
    assert "reset-failed" in shells(found)[places[4]]


def test_a_new_standby_unit_is_not_started() -> None:
    found = planned({"ActiveState": "inactive", "UnitFileState": ""}, {"type": "missing"}, STANDBY)
    assert not found.start
    assert found.drift == (f"{FILE}: missing, not a file", f"{NAME}: absent, not disabled")
    assert not any("restart" in text for text in shells(found))
    assert shells(found)[-1] == f"systemctl --quiet disable {NAME}"


ROWS: dict[str, tuple[State, State, list[str], bool]] = {
    "hand edit": (
        {**RUNS, "NeedDaemonReload": "yes"}, file("edited"), [f"{FILE}: content differs"], False
    ),
    # The same with a daemon-reload after it: what runs may have been started with that text.
    "hand edit in force": (RUNS, file("edited"), [f"{FILE}: content differs"], True),
    "hand edit of a sleeping unit's file": (
        {**RUNS, "ActiveState": "inactive", "digest": "", "NeedDaemonReload": "yes"},
        file("edited"),
        [f"{FILE}: content differs", f"{NAME}: inactive, not active"],
        True,
    ),
    "mode": (RUNS, {**OWN_FILE, "mode": "0600"}, [f"{FILE}: mode is 0600, not 0644"], False),
    "stale digest": (
        {**RUNS, "digest": "old"},
        OWN_FILE,
        [f"{NAME}: runs old, not {DIGEST}"],
        True,
    ),
    "no digest": (
        {**RUNS, "digest": ""},
        OWN_FILE,
        [f"{NAME}: runs no digest, not {DIGEST}"],
        True,
    ),
    "stopped": (
        {**RUNS, "ActiveState": "inactive", "digest": ""},
        OWN_FILE,
        [f"{NAME}: inactive, not active"],
        True,
    ),
    "failed": (
        {**RUNS, "ActiveState": "failed", "digest": ""},
        OWN_FILE,
        [f"{NAME}: failed, not active"],
        True,
    ),
    "replaced": (
        {**RUNS, "exe": "/opt/x/bin/llama-server (deleted)"},
        OWN_FILE,
        [f"{NAME}: runs a program that was replaced, /opt/x/bin/llama-server (deleted)"],
        True,
    ),
    "disabled": (
        {**RUNS, "UnitFileState": "disabled"},
        OWN_FILE,
        [f"{NAME}: disabled, not enabled"],
        False,
    ),
    "not read again": (
        {**RUNS, "NeedDaemonReload": "yes"},
        OWN_FILE,
        [f"{NAME}: systemd has not read its file again"],
        False,
    ),
    "masked": (
        {"LoadState": "masked", "ActiveState": "inactive", "UnitFileState": "masked"},
        {"type": "link", "target": "/dev/null"},
        [f"{FILE}: link, not a file", f"{NAME}: masked, not enabled",
         f"{NAME}: inactive, not active"],
        True,
    ),
    "no answer": (
        {"error": "OSError"},
        {"error": "OSError"},
        [f"{FILE}: unreadable, not a file", f"{NAME}: absent, not enabled",
         f"{NAME}: absent, not active"],
        True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_each_difference_is_named_and_mended(name: str) -> None:
    unit, unit_file, drift, start = ROWS[name]
    found = planned(unit, unit_file)
    assert list(found.drift) == drift
    assert found.start is start
    assert found.commands
    text = "\n".join(shells(found))
    assert ("restart" in text) is start
    assert ("daemon-reload" in text) is (unit_file != OWN_FILE or name == "not read again")
    assert ("systemd-analyze" in text) is (unit_file != OWN_FILE)


def test_a_masked_unit_is_replaced_before_it_is_enabled() -> None:
    unit, unit_file, _, _ = ROWS["masked"]
    text = shells(planned(unit, unit_file))
    write = next(i for i, s in enumerate(text) if f'mv -fT "$t" {FILE}' in s)
    assert (
        write
        < text.index("systemctl daemon-reload")
        < text.index(f"systemctl --quiet enable {NAME}")
    )


def test_a_stale_standby_unit_that_runs_is_restarted() -> None:
    unit = {**RUNS, "UnitFileState": "disabled", "digest": "old"}
    found = planned(unit, wanted=STANDBY)
    assert found.start
    assert found.drift == (f"{NAME}: runs old, not {DIGEST}",)


def test_what_is_standby_now_is_stopped_before_it_is_disabled() -> None:
    """It came up at boot until now; a run that ends after the first step finds it enabled still."""
    found = planned({**RUNS, "digest": "old"}, wanted=STANDBY)
    assert found.stop
    assert not found.start
    assert found.drift == (
        f"{NAME}: runs, and is standby now",
        f"{NAME}: enabled, not disabled",
    )
    stop, disable = f"systemctl --quiet stop {NAME}", f"systemctl --quiet disable {NAME}"
    assert shells(found) == [stop, disable]


def test_a_standby_unit_that_somebody_started_runs_on() -> None:
    found = planned({**RUNS, "UnitFileState": "disabled"}, wanted=STANDBY)
    assert found == ServePlan((), (), False)


def test_a_drop_in_is_set_aside_and_what_runs_with_it_is_restarted() -> None:
    """The process was started with the drop-in; its digest is the right one all the same."""
    places = [f"/etc/systemd/system/{NAME}.d/o.conf", f"/run/systemd/system/{NAME}.d/p.conf"]
    found = planned({**RUNS, "DropInPaths": " ".join(places)})
    assert found.drift == tuple(f"{place}: a drop-in changes {NAME}" for place in places)
    text = shells(found)
    for place in places:
        assert f"mv -f {place} {place}.set-aside-by-sparkwright" in text
    assert found.start
    reload = text.index("systemctl daemon-reload")
    assert reload < next(i for i, s in enumerate(text) if "restart" in s)
    assert text.index(f"mv -f {places[1]} {places[1]}.set-aside-by-sparkwright") < reload


def test_a_drop_in_that_systemd_has_not_read_restarts_nothing() -> None:
    """One run is enough for it: waiting for systemd to name it would take two."""
    place = f"/etc/systemd/system/{NAME}.d/o.conf"
    seen = answers({**RUNS, "NeedDaemonReload": "yes"}, OWN_FILE)
    seen = dataclasses.replace(seen, dropins={"rc": 0, "out": f"{place}\n"})
    found = plan(ITEM, SERVICE, seen)
    assert found.drift == (
        f"{place}: a drop-in changes {NAME}",
        f"{NAME}: systemd has not read its file again",
    )
    assert not found.start
    assert shells(found) == [
        f"mv -f {place} {place}.set-aside-by-sparkwright", "systemctl daemon-reload",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("unit", "unit_file"),
    [
        (RUNS, file("edited")),
        ({**RUNS, "DropInPaths": f"/etc/systemd/system/{NAME}.d/o.conf"}, OWN_FILE),
    ],
)
def test_a_run_that_dies_before_the_restart_leaves_a_mark(unit: State, unit_file: State) -> None:
    """Once the text is mended, nothing else tells that the process was started with another."""
    mark = f"/run/sparkwright/owed-{NAME}"
    text = shells(planned(unit, unit_file))
    assert text[0] == f"install -D -m 0644 /dev/null {mark}"
    assert text[-1].endswith(f"systemctl restart --no-block {NAME} && rm -f {mark}")
    seen = dataclasses.replace(answers(RUNS, OWN_FILE), mark={"type": "file"})
    later = plan(ITEM, SERVICE, seen)
    assert later.drift == (f"{NAME}: owes a restart since its unit was mended",)
    assert later.start
    assert shells(later)[-1] == text[-1]
    # A process that has ended meanwhile is started for that reason, and then nothing is owed.
    stopped = {**RUNS, "ActiveState": "inactive", "digest": ""}
    started = plan(ITEM, SERVICE, dataclasses.replace(seen, unit=stopped))
    assert started.drift == (f"{NAME}: inactive, not active",)
    assert shells(started) == shells(later)[1:]


def test_a_start_that_is_under_way_is_joined_and_not_begun_again() -> None:
    loading = {**RUNS, "ActiveState": "activating", "SubState": "start-post"}
    found = planned(loading)
    assert found.start
    assert not [shell for shell in shells(found) if "restart" in shell]
    crashing = planned({**loading, "SubState": "auto-restart"})
    assert [shell for shell in shells(crashing) if "restart" in shell]


def test_a_drop_in_of_a_sleeping_standby_unit_starts_nothing() -> None:
    found = planned(
        {**SLEEPS, "DropInPaths": f"/etc/systemd/system/{NAME}.d/o.conf"}, wanted=STANDBY
    )
    assert len(found.drift) == 1
    assert not found.start


def test_drop_ins_for_all_services_are_the_systems() -> None:
    places = ["/usr/lib/systemd/system/service.d/10-timeout-abort.conf",
              "/etc/systemd/system/llm-.service.d/x.conf"]  # fmt: skip
    assert planned({**RUNS, "DropInPaths": " ".join(places)}) == ServePlan((), (), False)


def test_systemd_reads_a_unit_before_it_is_put_in_place(tmp_path: Path) -> None:
    """Any printed line fails, since systemd-analyze's exit status is 0 for an unknown key."""
    check = next(s for s in shells(planned(RUNS, file("x"))) if "systemd-analyze" in s)
    tool = tmp_path / "systemd-analyze"
    for text, status in (("", 0), ("x.service:3: Unknown key 'Foo'", 1)):
        tool.write_text(f'#!/bin/sh\nprintf "{text}"\nexit 0\n')
        tool.chmod(0o755)
        command = check.replace(f"/run/sparkwright/verify/{NAME}", f"{tmp_path}/{NAME}")
        (tmp_path / NAME).touch()
        done = subprocess.run(
            ["sh", "-c", command],
            env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr.strip()) == (status, text)
        assert not (tmp_path / NAME).exists()


# --- the digest: everything that must restart the process --------------------------------------


def other(name: str, **changes: Any) -> serving.Seen:
    """Answers of which one says something else."""
    seen = answers()
    values: dict[str, Any] = {name: {**getattr(seen, name), **changes}}
    return dataclasses.replace(seen, **values)


def other_build(**changes: Any) -> serving.Seen:
    """Answers of a machine with another build."""
    seen = answers()
    return dataclasses.replace(seen, engine=({**seen.engine[0], **changes}, *seen.engine[1:]))


def test_the_same_machine_gives_the_same_digest() -> None:
    assert service(answers()) == SERVICE
    assert len(DIGEST) == 12


@pytest.mark.parametrize(
    "seen",
    [
        other_build(target="fedcba987654"),
        other("stamp", text='{"manifest_digest": "beef"}'),
        other("stamp", text="["),
        other("stamp", type="missing", text=""),
    ],
)
def test_build_and_weights_are_in_the_digest(seen: serving.Seen) -> None:
    assert service(seen).digest != DIGEST


@pytest.mark.parametrize(
    "changes",
    [
        {"port": 8081},
        {"listen": "0.0.0.0"},
        {"api_key": "generate"},
        {"recipe": dataclasses.replace(RECIPE, flags={"jinja": True})},
        {"recipe": dataclasses.replace(RECIPE, env={})},
        {"recipe": dataclasses.replace(RECIPE, context=4096)},
        {"recipe": dataclasses.replace(RECIPE, memory_gib=11)},
        {"files": ("other.gguf",)},
    ],
)
def test_every_line_of_the_unit_is_in_the_digest(changes: dict[str, Any]) -> None:
    assert service(answers(), dataclasses.replace(ITEM, **changes)).digest != DIGEST


@pytest.mark.parametrize(
    "seen", [other("host", clock=9.0, mem_total=121 * 2**30), other("unit", x=1)]
)
def test_what_the_process_does_not_see_is_not_in_the_digest(seen: serving.Seen) -> None:
    assert service(seen).digest == DIGEST


def test_a_new_key_restarts_only_who_uses_it() -> None:
    keyed = dataclasses.replace(ITEM, api_key="generate")
    one, two = other("key", type="file", sha256="a"), other("key", type="file", sha256="b")
    assert service(one, keyed).digest != service(two, keyed).digest
    assert service(one).digest == service(two).digest == DIGEST
    assert service(one, keyed).api_key_file == "/etc/sparkwright/api-key"


def test_the_program_is_named_by_its_build_and_not_by_the_link() -> None:
    """A failed upgrade that moves the link must not change what a restart runs."""
    assert SERVICE.argv[0] == "/opt/sparkwright/llama.cpp/0123456789ab/bin/llama-server"
    assert f"/weights/lab/tiny/{COMMIT[:12]}/tiny.gguf" in SERVICE.argv[2]


def test_a_recipe_takes_its_own_file_of_a_shared_snapshot() -> None:
    shared = dataclasses.replace(WEIGHTS, files=(HubFile("a.gguf", 1, "0" * 64), *WEIGHTS.files))
    wanted = dataclasses.replace(ITEM, weights=shared)
    assert service(answers(), wanted).argv[2].endswith("/tiny.gguf")


def test_the_vocabulary_is_named_in_all_three_ways() -> None:
    for name in ("TIKTOKEN_RS_CACHE_DIR", "TIKTOKEN_ENCODINGS_BASE", "TIKTOKEN_CACHE_DIR"):
        assert SERVICE.env[name] == "/srv/sparkwright/tiktoken"
    assert SERVICE.env["GGML_X"] == "1"


def test_too_much_memory_is_refused_with_the_number() -> None:
    big = item("big", recipe={"memory_gib": 200})
    with pytest.raises(SparkwrightError, match=r"needs 200 GiB, the machine has 108 GiB"):
        serving.service_of(big, [big], PLACE, answers())


def test_those_that_do_not_fit_together_exclude_each_other() -> None:
    running = item("a", recipe={"memory_gib": 60})
    standby = item("b", recipe={"memory_gib": 60}, state="standby")
    pair = [running, standby]
    units = {i.unit: serving.service_of(i, pair, PLACE, answers()) for i in pair}
    named = {name: unit.conflicts for name, unit in units.items()}
    assert named == {"llm-a": (), "llm-b": ("llm-a",)}


@pytest.mark.parametrize(
    ("listen", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8080"),
        ("0.0.0.0", "http://127.0.0.1:8080"),
        ("192.168.1.12", "http://192.168.1.12:8080"),
        ("::", "http://[::1]:8080"),
        ("fd00::12", "http://[fd00::12]:8080"),
    ],
)
def test_the_question_goes_where_the_server_listens(listen: str, url: str) -> None:
    wanted = dataclasses.replace(ITEM, listen=listen)
    assert serving.question(wanted, PLACE, answers(RUNS))["url"] == url


def test_the_question_is_the_recipes() -> None:
    keyed = dataclasses.replace(ITEM, api_key="generate")
    spec = serving.question(keyed, PLACE, answers(RUNS))
    assert spec["question"] == "What are you?"
    assert spec["invocation"] == "cafe"
    assert spec["unit"] == NAME
    assert spec["key_file"] == "/etc/sparkwright/api-key"
    assert spec["log_must"] == ["model loaded"]
    assert serving.question(ITEM, PLACE, answers())["key_file"] is None
