"""On a machine with an NVIDIA GPU and nvcc: build, serve and bench a model of gpt-oss-120b's shape.

    python3 -m tests.operate.gpu_proof --source llama.cpp.tar.gz --architecture 90 --bandwidth 4800

Everything but the weights is the project's own: cmake's arguments and targets, the command line of
recipes/gpt-oss-120b-llamacpp.yaml, `sparkwright bench`. Needs no network; Python 3.11, cmake,
ninja; PyYAML and click are taken from .venv when this Python has none. A step that is done is not
done again, so a time limit may cut it anywhere: --until build, model or serve ends earlier.
llama-benchy is used when it is installed, and the output says when it is not.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
STEPS = ("build", "model", "serve", "bench")


def options() -> argparse.Namespace:
    """What is built, how large the model is, and where it is put."""
    raw = argparse.RawDescriptionHelpFormatter
    made = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    made.add_argument("--source", type=Path, help="archive of llama.cpp's source")
    made.add_argument("--bin", type=Path, help="directory of a built llama-server instead")
    made.add_argument("--backend", choices=("cuda", "cpu"), default="cuda")
    made.add_argument("--architecture", default="90", help="CUDA architecture; 90 is H100 and H200")
    made.add_argument("--layers", type=int, default=36, help="1.7 GB each; 36 is the whole model")
    made.add_argument("--tiny", action="store_true", help="a few MB, to try this without a GPU")
    made.add_argument("--bandwidth", type=float, required=True, help="GB/s of the GPU's memory")
    made.add_argument("--work", type=Path, default=PROJECT / "build/gpu-proof")
    made.add_argument("--model-dir", type=Path, help="default: --work; /dev/shm when disk is short")
    made.add_argument("--port", type=int, default=18080)
    made.add_argument("--until", choices=STEPS, default="bench")
    made.add_argument("bench", nargs="*", help="further words for sparkwright bench, after --")
    return made.parse_args()


def run(argv: list[str], **more: Any) -> subprocess.CompletedProcess[str]:
    """Run and fail with the command's own words."""
    print("+", *argv, file=sys.stderr, flush=True)
    return subprocess.run(argv, check=True, text=True, **more)


def cmake_words(asked: argparse.Namespace) -> tuple[list[str], tuple[str, ...]]:
    """The project's cmake arguments for this machine, and its targets."""
    from sparkwright.artifacts import load_lock
    from sparkwright.llama_flags import Source, Wanted, cmake_flags, newest_nvcc, nvcc_probe

    locked = load_lock(PROJECT / "artifacts.lock.yaml").artifacts["llama.cpp-source"]
    source = Source("", "", None, locked.commit or "", locked.build_number or 0)
    wanted = Wanted(source, "", "", "", asked.backend, asked.architecture, (), {}, 0, 1)
    found = run(nvcc_probe()["argv"], stdout=subprocess.PIPE) if asked.backend == "cuda" else None
    nvcc, version = newest_nvcc({"out": found.stdout}) if found else ("", "")
    if found and not nvcc:
        raise SystemExit("gpu_proof: no nvcc 13 in /usr/local/cuda; set CUDA_HOME")
    print(f"nvcc {version} at {nvcc}" if nvcc else "no CUDA", file=sys.stderr)
    return cmake_flags(wanted, nvcc), wanted.targets


def build(asked: argparse.Namespace) -> Path:
    """Directory of llama-server."""
    if asked.bin:
        return Path(asked.bin)
    name = asked.architecture if asked.backend == "cuda" else "cpu"
    out = asked.work / f"build-{name}"
    if all((out / "bin" / target).exists() for target in ("llama-server", "llama-bench")):
        return Path(out / "bin")
    source = asked.work / "source"
    if not (source / ".unpacked").exists():
        source.mkdir(parents=True, exist_ok=True)
        with tarfile.open(asked.source) as archive:
            archive.extractall(source, filter="data")
        (source / ".unpacked").touch()
    top = min(source.glob("**/CMakeLists.txt"), key=lambda path: len(path.parts)).parent
    words, targets = cmake_words(asked)
    started = time.monotonic()
    run(["cmake", "-S", str(top), "-B", str(out), *words], stdout=sys.stderr)
    jobs = str(os.cpu_count() or 1)
    run(["cmake", "--build", str(out), "-j", jobs, "--target", *targets], stdout=sys.stderr)
    print(f"built in {time.monotonic() - started:.0f} s", file=sys.stderr)
    return Path(out / "bin")


def model(asked: argparse.Namespace) -> Path:
    """The generated weights."""
    from tests.lab.shape_gguf import TINY, Shape, write

    shape = TINY if asked.tiny else Shape(layers=asked.layers)
    place = (asked.model_dir or asked.work) / f"shape-{shape.layers}-{shape.hidden}.gguf"
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        size = write(place, shape)
        print(f"{place}: {size:,} bytes in {time.monotonic() - started:.0f} s", file=sys.stderr)
    return Path(place)


def command(asked: argparse.Namespace, binary: Path, weights: Path) -> list[str]:
    """What the recipe's unit would run, with this machine's paths."""
    from sparkwright.llama_server import argv
    from sparkwright.recipes import load_recipe

    recipe = load_recipe(PROJECT / "recipes/gpt-oss-120b-llamacpp.yaml")
    if asked.backend == "cpu":
        kept = {k: v for k, v in recipe.flags.items() if k != "n-gpu-layers"}
        recipe = dataclasses.replace(recipe, flags=kept, context=8192)
    return list(argv(recipe, binary=str(binary / "llama-server"), model=str(weights),
                     port=asked.port, listen="127.0.0.1", api_key_file=None))  # fmt: skip


def wait(asked: argparse.Namespace, server: subprocess.Popen[bytes], log: Path) -> float:
    """Seconds until it serves. Raises SystemExit with the end of its log."""
    started = time.monotonic()
    while time.monotonic() - started < 400:
        if server.poll() is not None:
            break
        try:
            address = f"http://127.0.0.1:{asked.port}/health"
            with urllib.request.urlopen(address, timeout=5) as answer:
                if answer.status == 200:
                    return time.monotonic() - started
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    raise SystemExit(f"gpu_proof: llama-server does not serve:\n{log.read_text()[-4000:]}")


def bench(asked: argparse.Namespace, words: list[str]) -> dict[str, Any]:
    """Run `sparkwright bench --json` and return what it says; 1 (below a gate) is an answer."""
    argv = [sys.executable, "-m", "sparkwright.cli", "bench", "--json",
            "--bandwidth", str(asked.bandwidth), "--results", str(asked.work / "bench.jsonl"),
            *words]  # fmt: skip
    print("+", *argv, file=sys.stderr, flush=True)
    done = subprocess.run(argv, cwd=PROJECT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"gpu_proof: sparkwright bench ended with {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def measured(asked: argparse.Namespace, binary: Path, weights: Path) -> dict[str, Any]:
    """Serve, bench, stop."""
    argv, log = command(asked, binary, weights), asked.work / "server.log"
    print("+", *argv, file=sys.stderr, flush=True)
    with log.open("wb") as out, subprocess.Popen(argv, stdout=out, stderr=out) as server:
        try:
            loaded = wait(asked, server, log)
            if asked.until == "serve":
                return {"argv": argv, "load_s": round(loaded, 1)}
            served = ["gpt-oss-120b-llamacpp", "--url", f"http://127.0.0.1:{asked.port}",
                      "--model-file", str(weights), *asked.bench]  # fmt: skip
            served += ["--html", str(asked.work / "bench.html")]
            return {"argv": argv, "load_s": round(loaded, 1), "bench": bench(asked, served)}
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()


def engine_alone(asked: argparse.Namespace, binary: Path, weights: Path) -> dict[str, Any]:
    """llama-bench on the same file, judged by `sparkwright bench --llama-bench`."""
    layers = ["-ngl", "999"] if asked.backend == "cuda" else []
    deep = ["-p", "2048", "-n", "64"] if asked.backend == "cuda" else ["-p", "64", "-n", "8"]
    argv = [str(binary / "llama-bench"), "-m", str(weights), "-fa", "1", *layers, *deep]
    done = run([*argv, "-r", "3", "-o", "json"], stdout=subprocess.PIPE)
    place = asked.work / "llama-bench.json"
    place.write_text(done.stdout)
    return bench(asked, ["--llama-bench", str(place), "--model-file", str(weights)])


def main() -> int:
    """All steps; the last line is one JSON object."""
    asked = options()
    # Whoever ends this politely, as timeout does, ends the server with it.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(f"ended by signal {number}"))
    sys.path[:0] = [str(PROJECT)]
    sys.path += [str(path) for path in (PROJECT / ".venv/lib").glob("python3*/site-packages")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    asked.work.mkdir(parents=True, exist_ok=True)
    binary = build(asked)
    said: dict[str, Any] = {"layers": asked.layers, "bin": str(binary)}
    if asked.until != "build":
        weights = model(asked)
        said["model_bytes"] = weights.stat().st_size
        if asked.until != "model":
            said |= measured(asked, binary, weights)
    if asked.until == "bench":
        said["llama_bench"] = engine_alone(asked, binary, weights)
        for name in ("bench", "llama_bench"):
            first = said[name]["depths"][0]
            print(f"{name}: {first['decode']} of {first['roof']} tok/s, share {first['share']}",
                  file=sys.stderr)  # fmt: skip
        said["share_of_roof"] = said["bench"]["depths"][0]["share"]
    print(json.dumps(said))
    return 0


if __name__ == "__main__":
    sys.exit(main())
