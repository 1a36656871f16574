"""artifacts.lock.yaml: the real one, and every bad one with its message."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from pathlib import Path

import pytest

from sparkwright.artifacts import Artifact, load_lock
from sparkwright.errors import SparkwrightError
from sparkwright.lock_text import dump, header_of

PROJECT = Path(__file__).parents[2]
LOCK = PROJECT / "artifacts.lock.yaml"
H64, H40 = "a" * 64, "b" * 40
HEAD = "format: 1\nhub: https://hub.example\n"


def lock_with(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "lock.yaml"
    path.write_text(text)
    return path


def test_real_lock_has_every_name_that_tasks_use() -> None:
    lock = load_lock(LOCK)
    kinds = {name: item.kind for name, item in lock.artifacts.items()}
    # Images, and the wheel sets of profiles, are named by recipes; their own tests look at them.
    assert (
        kinds.items()
        >= {
            "cuda-keyring": "file",
            "cuda-repo": "apt",
            "hub-client": "wheels",
            "llama.cpp-source": "archive",
            "tiktoken-o200k_base": "file",
            "uv": "wheels",
            "vllm-eugr": "wheels",
            "vllm-stock": "wheels",
        }.items()
    )
    source = lock.artifacts["llama.cpp-source"]
    assert source.version == f"b{source.build_number}"
    # --load-mode came before this build, and --no-mmap is gone since (cases.md, LLama-GUI#361).
    assert source.build_number is not None
    assert source.build_number > 10875
    vocabulary = lock.artifact("tiktoken-o200k_base")
    assert vocabulary.url is not None
    # harmony and tiktoken look for the sha1 of the address.
    name = hashlib.sha1(vocabulary.url.encode(), usedforsecurity=False).hexdigest()
    assert vocabulary.sha1_name == name


def test_real_lock_is_written_as_the_resolver_writes_it() -> None:
    text = LOCK.read_text()
    assert dump(load_lock(LOCK), header_of(text)) == text


def test_lock_holds_the_hash_of_the_requirements_file() -> None:
    wheels = load_lock(LOCK).artifact("hub-client")
    assert wheels.requirements is not None
    content = (LOCK.parent / wheels.requirements).read_bytes()
    assert wheels.sha256 == hashlib.sha256(content).hexdigest()


def test_every_requirement_is_pinned_and_hashed() -> None:
    text = (PROJECT / "files/opt/sparkwright/requirements/hub-client.txt").read_text()
    assert "://" not in text
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    blocks = "\n".join(lines).replace("\\\n", " ").splitlines()
    names = set()
    for block in blocks:
        found = re.fullmatch(
            r"([a-z0-9-]+)==[^ ;]+( ; [^\\]+?)?((\s+--hash=sha256:[0-9a-f]{64})+)\s*", block
        )
        assert found, block
        names.add(found[1])
    # What huggingface_hub 2.4.0 needs on Linux; pip refuses the file when one is missing.
    assert names >= {"huggingface-hub", "hf-xet", "httpx2", "httpcore2", "anyio", "h11", "tqdm",
                     "filelock", "fsspec", "packaging", "pyyaml", "click", "idna", "truststore",
                     "typing-extensions"}  # fmt: skip
    assert "huggingface-hub==2.4.0 " in text


def test_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SparkwrightError) as caught:
        load_lock(tmp_path / "lock.yaml")
    assert str(caught.value) == (
        "lock.yaml: no such file; restore artifacts.lock.yaml from the project, then run: "
        "sparkwright lock"
    )


def file(text: str) -> str:
    return f"{HEAD}artifacts:\n  x: {{{text}}}\nsnapshots: {{}}\n"


def snapshot(text: str, key: str = "o/r@main") -> str:
    return f"{HEAD}artifacts: {{}}\nsnapshots:\n  {key}: {{{text}}}\n"


X, S = "lock.yaml: artifacts/x", "lock.yaml: snapshots/o/r@main"
BASE = "repo: o/r, revision: main"
FIX = "remove it, then run: sparkwright lock"
BAD = [
    ("[1]", "lock.yaml: the file must be a map (key: value), not a list; restore "
     "artifacts.lock.yaml from the project, then run: sparkwright lock"),
    (file("kind: apt, packages: {}"), f"{X}/packages: names no package"),
    (HEAD + "artefacts: {}\n", "lock.yaml: unknown key artefacts; did you mean artifacts?"),
    ("format: 2\nhub: https://h\n",
     "lock.yaml: format: is 2, this version reads 1; use the sparkwright that wrote the lock"),
    ("format: 1\n", "lock.yaml: hub is missing; add hub: (text)"),
    ("format: 1\nhub: ftp://h\n",
     'lock.yaml: hub: must be an http(s) address without a password, not "ftp://h"'),
    ("format: 1\nhub: https://u:p@h/\n",
     'lock.yaml: hub: must be an http(s) address without a password, not "https://u:p@h/"'),
    (file("kind: fil"),
     f'{X}/kind: must be file, archive, apt, debs, wheels, wheel or image, not "fil"; '
     "did you mean file?"),
    (file("version: v1"), f"{X}: kind is missing; add kind: (text)"),
    (file("kind: file, size: many"), f"{X}/size: must be a whole number, not text"),
    (file("kind: file, size: 0"), f"{X}/size: must be greater than 0, not 0"),
    (file("kind: file, sha256: ABC"),
     f'{X}/sha256: must be 64 lower-case hex digits, not "ABC"; {FIX}'),
    (file(f"kind: file, commit: {H40}"), f"{X}: unknown key commit; file has no commit"),
    (file("kind: file, plain_name: a.tiktoken"),
     f"{X}: plain_name and sha1_name go together; add the other one"),
    (file("kind: archive, commit: main"),
     f'{X}/commit: must be 40 lower-case hex digits, not "main"; {FIX}'),
    (file('kind: apt, fingerprint: "EB69 3B30"'),
     f'{X}/fingerprint: must be 40 upper-case hex digits, not "EB69 3B30"; '
     "write it without spaces"),
    (file('kind: apt, packages: {cuda-nvcc: "*"}'),
     f"{X}/packages/cuda-nvcc: must be an exact version; read it with: apt-cache policy"),
    (file("kind: wheels, requirements: /etc/x"),
     f'{X}/requirements: must be a plain relative path, not "/etc/x"'),
    (snapshot(BASE.replace("main", "dev")), f"{S}: is named otherwise than its o/r@dev; rename it"),
    (snapshot("repo: r, revision: main"), f'{S}/repo: must be owner/name, not "r"'),
    (snapshot(f"{BASE}, commit: abc"),
     f'{S}/commit: must be 40 lower-case hex digits, not "abc"; {FIX}'),
    (snapshot(f"{BASE}, files: [{{path: a, size: 1, sha256: {H64}}}]"),
     f"{S}: has files but no commit; remove files, then run: sparkwright lock"),
    (snapshot(f"{BASE}, commit: {H40}, files: [{{path: a, size: 1}}]"),
     f"{S}/files/0: has no sha256 or git_sha1; give one"),
    (snapshot(f"{BASE}, commit: {H40}, files: "
              f"[{{path: a, size: 1, sha256: {H64}, git_sha1: {H40}}}]"),
     f"{S}/files/0: has both sha256 and git_sha1; give one"),
    (snapshot(f"{BASE}, commit: {H40}, files: [{{path: ../a, size: 1, sha256: {H64}}}]"),
     f'{S}/files/0/path: must be a plain relative path, not "../a"'),
    (snapshot(f"{BASE}, commit: {H40}, files: [{{path: a, size: -1, sha256: {H64}}}]"),
     f"{S}/files/0/size: must not be negative, not -1"),
    (snapshot(f"repo: o/r, revision: {'c' * 40}, commit: {H40}", f"o/r@{'c' * 40}"),
     f"lock.yaml: snapshots/o/r@{'c' * 40}/commit: differs from the revision, which is a commit "
     "itself; remove it"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), BAD)
def test_bad_lock_has_one_exact_message(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SparkwrightError) as caught:
        load_lock(lock_with(tmp_path, text))
    assert str(caught.value) == message


def test_all_problems_come_at_once(tmp_path: Path) -> None:
    text = HEAD + "artifacts:\n  a: {kind: x}\n  b: {kind: file, size: no}\nsnapshots: 5\n"
    with pytest.raises(SparkwrightError) as caught:
        load_lock(lock_with(tmp_path, text))
    assert len(str(caught.value).splitlines()) == 3


def test_unresolved_artifact_names_the_command(tmp_path: Path) -> None:
    lock = load_lock(lock_with(tmp_path, file(f"kind: file, url: https://h/f, sha256: {H64}")))
    assert not lock.artifacts["x"].resolved
    with pytest.raises(SparkwrightError) as caught:
        lock.artifact("x")
    assert str(caught.value) == f"{X}: size not known yet; run: sparkwright lock"
    with pytest.raises(SparkwrightError) as caught:
        lock.artifact("y")
    assert str(caught.value) == "lock.yaml: artifacts/y: is not in the lock; known: x"


def test_snapshot_is_found_by_branch_and_by_commit(tmp_path: Path) -> None:
    text = snapshot(f"{BASE}, commit: {H40}, files: [{{path: a, size: 0, sha256: {H64}}}]")
    lock = load_lock(lock_with(tmp_path, text))
    found = lock.snapshot("o/r", "main")
    assert found is not None
    assert found.commit == H40
    assert lock.snapshot("o/r", H40) is found
    assert lock.snapshot("o/r", "dev") is None
    assert lock.snapshot("o/other", H40) is None


def test_snapshot_without_files_counts_as_absent(tmp_path: Path) -> None:
    lock = load_lock(lock_with(tmp_path, snapshot(f"{BASE}, commit: {H40}")))
    assert "o/r@main" in lock.snapshots
    assert lock.snapshot("o/r", "main") is None


def test_values_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Artifact("x", "file").size = 5  # type: ignore[misc]
