"""`make test-vllm`: a real vLLM on a lab machine, converged twice, asked, and broken in five ways.

The last line is `RESULT vllm engine=real converged_twice=… answered=… refused_before_stop=n/m`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.e2e import support
from tests.lab.host import LabError, say
from tests.lab.lab import start_lab
from tests.vllm.site import Site, prepare


@dataclass(frozen=True)
class Fault:
    """A recipe that the installed build cannot take.

    + changes: of the recipe's maps; says: what the refusal must name
    """

    title: str
    changes: Mapping[str, Mapping[str, object]]
    says: str


FAULTS = (
    Fault("wrong parser", {"flags": {"reasoning-parser": "deepseek_r9"}}, "deepseek_r9"),
    Fault("unknown variable", {"env": {"VLLM_NO_SUCH_SWITCH": "1"}}, "VLLM_NO_SUCH_SWITCH"),
    # Gone since the V1 engine; vLLM itself would end with argparse's exit status 2.
    Fault("removed flag", {"flags": {"num-scheduler-steps": 4}}, "--num-scheduler-steps"),
    Fault("wrong choice", {"flags": {"moe-backend": "marlinn"}}, "marlinn"),
    Fault("--enforce-eager", {"flags": {"enforce-eager": True}}, "enforce-eager"),
)


def twice(site: Site) -> tuple[bool, bool]:
    """Converge from nothing and again; whether the second run did nothing, and the answer fits."""
    say("first converge: uv, the wheels, the model, the unit")
    support.converge(site.fleet)
    answered = site.answer() == "SPARK"
    before, asked = site.process(), len(site.lab.upstream.access())
    say("second converge")
    summary = support.converge(site.fleet)
    quiet = summary["changed"] == 0 and site.process() == before
    code, report = support.check(site.fleet)
    fetched = support.served_bytes(site.lab, asked)
    for row in summary["changes"]:
        print(f"second run: {row}")
    print(f"changed={summary['changed']} check={code} fetched={fetched} {before}")
    return quiet and code == 0 and fetched == 0 and not report["drift"], answered


def refusals(site: Site) -> int:
    """How many faults are refused by name while the process that runs stays the same."""
    good = 0
    for fault in FAULTS:
        before = site.process()
        site.write_recipe(**fault.changes)
        said = support.refused(site.fleet)
        named = [line.strip() for line in said.splitlines() if fault.says in line]
        same = site.process() == before and site.answer() == "SPARK"
        print(f"{fault.title}: {named[0] if named else 'NOT NAMED'}; untouched={same}")
        good += bool(named) and same
    site.write_recipe()
    return good


def bad_environment(site: Site) -> bool:
    """A new environment that fails its checks: the old one goes on serving, the run says so."""
    before = site.process()
    site.write_lock(imports=["torch", "no_such_module"])
    said = support.refused(site.fleet)
    named = [line.strip() for line in said.splitlines() if "no_such_module" in line]
    same = site.process() == before and site.answer() == "SPARK"
    site.write_lock()
    mended = support.converge(site.fleet)["changed"] == 0 and site.process() == before
    print(f"bad environment: {named[0] if named else 'NOT NAMED'}; untouched={same and mended}")
    return bool(named) and same and mended


def main() -> int:
    """Run it all on one machine; 0 when everything held."""
    try:
        with start_lab(machines=1) as lab, TemporaryDirectory() as place:
            site = prepare(lab, Path(place))
            quiet, answered = twice(site)
            kept = bad_environment(site)
            refused = refusals(site)
    except LabError as error:
        print(f"vllm: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("vllm: interrupted; everything was taken down", file=sys.stderr)
        return 130
    print(
        f"RESULT vllm engine=real converged_twice={_word(quiet)} answered={_word(answered)} "
        f"refused_before_stop={refused}/{len(FAULTS)}"
    )
    return 0 if quiet and answered and kept and refused == len(FAULTS) else 1


def _word(good: bool) -> str:
    return "yes" if good else "no"


if __name__ == "__main__":
    sys.exit(main())
