"""`sparkwright lint`: what will the programs in these files really get? Opens no connection."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Sequence

from sparkwright.engine_facts import EngineFacts
from sparkwright.errors import SparkwrightError
from sparkwright.lint import builds, output
from sparkwright.lint.catalog import catalog, llama
from sparkwright.lint.context import Build, Context
from sparkwright.lint.model import Kind
from sparkwright.lint.run import Report, lint

EPILOG = """exit code: 0 clean, 1 a BLOCK (with --strict a WARN too), 2 a file cannot be linted
BLOCK: it will not start, runs something else than written, or can wedge the machine
WARN: it runs as written now, and costs or breaks something later; NOTE: worth knowing
rules: docs/lint.md
example: sparkwright lint --for vllm==0.33.0 llm-gpt-oss-120b.service"""


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="sparkwright lint",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("files", nargs="*", metavar="FILE")
    made.add_argument("--for", dest="version", metavar="vllm==X.Y.Z", help="the release of vLLM")
    made.add_argument("--venv", metavar="DIR", help="the environment that vLLM is installed in")
    made.add_argument("--profile", metavar="NAME", help="a profile of sparkwright: stock, eugr, …")
    made.add_argument("--learn", metavar="ARCHIVE", help="read a wheel or sdist, and keep it")
    made.add_argument("--model-config", metavar="FILE", help="the model's config.json")
    made.add_argument("--gpus", type=int, default=1, metavar="N", help="GPUs of the machine")
    made.add_argument("--kind", choices=[str(kind) for kind in Kind], help="what the files are")
    made.add_argument("--strict", action="store_true", help="exit 1 for a WARN too")
    made.add_argument("--ignore-unknown", action="store_true", help="pass over files of no kind")
    made.add_argument("--format", choices=("text", "json", "sarif"), default="text",
                      help="default: text; sarif is for code scanning")  # fmt: skip
    return made


def context(options: argparse.Namespace) -> Context:
    """What to judge against; raises SparkwrightError when it is told twice or not at hand."""
    named = [word for word in ("version", "venv", "profile", "learn") if getattr(options, word)]
    if len(named) > 1:
        raise SparkwrightError("--for, --venv, --profile and --learn: give only one of them")
    facts: EngineFacts | None = None
    if options.version:
        facts = builds.for_version(options.version)
    elif options.venv:
        facts = builds.of_venv(options.venv)
    elif options.profile:
        facts = builds.of_profile(options.profile)
    elif options.learn:
        facts = builds.learn(options.learn)
    config = builds.config_of(options.model_config) if options.model_config else None
    build = Build(facts) if facts else Build(catalog().newest, assumed=True)
    told = facts is not None
    return Context(build, Build(llama(), assumed=True), config, options.gpus, told=told)


def main(argv: Sequence[str]) -> int:
    """Lint the files and print what was found."""
    options = parser().parse_args(list(argv))
    ctx = context(options)
    if not options.files:
        if options.learn:
            print(f"learned {ctx.vllm.title}: {builds.store()}/{ctx.vllm.facts.version}.json")
            return 0
        raise SparkwrightError("lint: no files; name units, scripts or recipes")
    # A short run that makes many small objects and no cycles of them: a quarter of the time.
    gc.disable()
    try:
        report = lint(options.files, ctx, Kind(options.kind) if options.kind else None)
    finally:
        gc.enable()
    if options.ignore_unknown:
        report = report.without_unknown()
    _show(report, options, ctx)
    return report.code(strict=options.strict)


def _show(report: Report, options: argparse.Namespace, ctx: Context) -> None:
    for path, why in report.cannot.items():
        print(output.printable(f"{path}: {why}"), file=sys.stderr)
    if options.format == "json":
        print(output.as_json(report.findings))
    elif options.format == "sarif":
        print(output.as_sarif(report.findings))
    else:
        if report.findings:
            print(output.text(report.findings, colour=sys.stdout.isatty()))
        print(output.summary(report.findings, len(set(options.files)), report.cannot))
        print(f"judged against {ctx.vllm.title}; --for, --venv or --profile names another build")
