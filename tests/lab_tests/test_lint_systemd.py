"""The lint against real systemd: it names the lines that systemd names, and the words it passes."""

from __future__ import annotations

import json
import re
from pathlib import PurePath

import pytest

from sparkwright.lint.findings import Verdict
from tests.lab import Machine
from tests.lint import case_files
from tests.lint.case_files import Case

pytestmark = pytest.mark.lab

# Rules that say "systemd passes over it" or "the unit is not started".
CLAIMS = frozenset(
    ("bad-value", "comment-in-value", "unknown-key", "unknown-section", "outside-section",
     "line-without-meaning", "environment-words", "environment-dropped", "exec-tilde",
     "exec-program", "exec-percent", "environment-percent", "second-exec-start",
     "blank-behind-backslash")
)  # fmt: skip
# Where systemd says nothing and does it all the same: text in an argument, a path with a comment.
SILENT = frozenset(("exec-tilde", "exec-percent", "comment-in-value"))
# systemd 252 of the lab is older than 255, for which the lint judges.
NEWER = re.compile(r"notify-reload")
VERIFY = r"""
import json, os, shutil, subprocess, sys
out = []
for name, text in json.load(sys.stdin):
    shutil.rmtree("/tmp/v", ignore_errors=True)
    os.mkdir("/tmp/v")
    with open(f"/tmp/v/{name}", "w") as unit:
        unit.write(text)
    path = f"/tmp/v/{name.replace('@.', '@x.')}"
    done = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True)
    out.append(done.stderr)
print(json.dumps(out))
"""


def units() -> list[tuple[Case, str, str]]:
    """Every service of every case: the case, its path, its text."""
    found = [case for case in case_files.every() if case.family.startswith("systemd")]
    names = [(case, name, text) for case in found for name, text in case.files.items()]
    return [item for item in names if item[1].endswith(".service")]


def test_the_lint_names_what_systemd_names(machine: Machine) -> None:
    every = units()
    sent = [(PurePath(name).name, text) for _, name, text in every]
    machine.ssh("cat > /tmp/verify.py", input=VERIFY)
    done = machine.ssh("sudo python3 /tmp/verify.py", input=json.dumps(sent))
    wrong = []
    for (case, path, text), said in zip(every, json.loads(done.stdout), strict=True):
        wrong += compare(case, path, text, said)
    assert wrong == []


def compare(case: Case, path: str, text: str, said: str) -> list[str]:
    """Lines that only one of the two names."""
    name = PurePath(path).name
    theirs = {int(n): t for n, t in re.findall(rf"{re.escape(name)}:(\d+): (.*)", said)}
    refused = "bad unit file setting" in said or "Refusing" in said
    found = [f for f in case_files.findings(case) if f.file == path]
    ours = {f.line: f.rule for f in found if f.verdict is not Verdict.NOTE and f.rule in CLAIMS}
    newer = {f.line for f in found if f.rule == "unknown-key" and f.verdict is Verdict.WARN}
    only_theirs = [
        f"{case.rule}: {case.name}: {name}:{line}: systemd says {words}"
        for line, words in theirs.items()
        if line not in ours and not NEWER.search(words) and "not executable" not in words
    ]
    only_ours = [
        f"{case.rule}: {case.name}: {name}:{line}: only the lint says {rule}: {text}"
        for line, rule in ours.items()
        if line not in theirs and not refused and rule not in SILENT and line not in newer
    ]
    return only_theirs + only_ours


DUMP = "import json,os,sys; json.dump([sys.argv[1:], dict(os.environ)], open('/run/d.json','w'))"
# Words as they stand in ExecStart= -> what the process gets of them.
WORDS = {
    "--port=$PORT": ["--port=$PORT"],
    "--port=${PORT}": ["--port=8080"],
    "${PORT:-1}": ["${PORT:-1}"],
    "$HOME/m.gguf": [],
    "$(nproc)": [],
    "--t=$(nproc)": ["--t=$(nproc)"],
    "$ARGS": ["--a", "--b"],
    "${ARGS}": ["--a --b"],
    "~/m.gguf": ["~/m.gguf"],
    "#": ["#"],
    ">>": [">>"],
    '{"method":"mtp","n":3}': ["{method:mtp,n:3}"],
    """'{"method":"mtp"}'""": ['{"method":"mtp"}'],
    "{%if": ["{f"],
    "{%-if": ["{%-if"],
}
# Lines of [Service] -> what a variable is then; None when it is not there.
LINES = {
    "Environment=A=--max-model-len 32768": ("A", "--max-model-len"),
    'Environment="B=--max-model-len 32768"': ("B", "--max-model-len 32768"),
    "Environment=C=/x:$LD_LIBRARY_PATH": ("C", "/x:$LD_LIBRARY_PATH"),
    "Environment=D=1   # stay offline": ("D", "1"),
    "Environment=E=p%40ss": ("E", None),
    "Environment=F=p%%40ss": ("F", "p%40ss"),
    r"Environment=G=\d": ("G", None),
    "Environment=H=%h": ("H", "/root"),
    "Environment=I=~/x": ("I", "~/x"),
}
ENV_FILE = {
    "J=1   # stay offline": ("J", "1   # stay offline"),
    'K="1" # c': ("K", "1# c"),
    "export L=1": ("L", None),
    "M=p%%40ss": ("M", "p%%40ss"),
    "N=$HOME/x": ("N", "$HOME/x"),
}


def test_what_a_process_gets(machine: Machine) -> None:
    """The claims behind the rules' "sees", one by one."""
    unit = ["[Service]", "Type=oneshot", "User=daemon", 'Environment="ARGS=--a --b" PORT=8080']
    unit += [*LINES, "EnvironmentFile=/etc/t.env", "ExecStartPre=+/usr/bin/touch /run/d.json"]
    unit += ["ExecStartPre=+/usr/bin/chmod 666 /run/d.json"]
    unit.append(f"ExecStart=/usr/bin/python3 /opt/d.py {' '.join(WORDS)}")
    machine.ssh("sudo tee /opt/d.py >/dev/null", input=DUMP)
    machine.ssh("sudo tee /etc/t.env >/dev/null", input="\n".join(ENV_FILE) + "\n")
    machine.ssh("sudo tee /etc/systemd/system/t.service >/dev/null", input="\n".join(unit) + "\n")
    machine.ssh("sudo systemctl daemon-reload; sudo systemctl start t.service")
    argv, env = json.loads(machine.ssh("cat /run/d.json").stdout)
    assert argv == [word for words in WORDS.values() for word in words]
    wanted = dict((LINES | ENV_FILE).values())
    assert {name: env.get(name) for name in wanted} == wanted
