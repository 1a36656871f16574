"""Drift of what is downloaded: vocabulary, shards, manifest, and the client that fetches them."""

from __future__ import annotations

from .row import Row
from .site import Site

TIKTOKEN = "/srv/sparkwright/tiktoken"
SHA1, PLAIN = (
    f"{TIKTOKEN}/fb374d419588a4632f3f557e76b4b70aebbca790",
    f"{TIKTOKEN}/o200k_base.tiktoken",
)
PARENT = "/srv/sparkwright/weights/sparkwright-lab/tiny-gpt-oss-GGUF"
# Shell text: the one revision that is there.
ENTER = f"cd {PARENT}/*/\n"
SHARD = "tiny-gpt-oss-00003-of-00004.gguf"
CLIENT = "/opt/sparkwright/hub-client"
MISSING, CHANGED = f"{PARENT}/*: missing {SHARD}", f"{PARENT}/*: changed {SHARD}"


def verified(site: Site) -> None:
    """Every byte is what the manifest's list says."""
    site.root(f"{ENTER}sha256sum --check --quiet SHA256SUMS")


def original_stays(site: Site) -> None:
    """Somebody's file is not ours to delete."""
    site.root(f"{ENTER}test -f original/consolidated.safetensors")


# One byte in the middle, and the old mtime put back: no stat can see it.
FLIP = (
    f"{ENTER}touch -r {SHARD} /run/stamp\n"
    f"python3 - <<'P'\nf = open('{SHARD}', 'r+b')\nf.seek(4096)\nb = f.read(1)\nf.seek(4096)\n"
    f"f.write(bytes([b[0] ^ 1]))\nP\ntouch -r /run/stamp {SHARD}\n"
)

ROWS = (
    Row("vocabulary deleted", f"rm {SHA1}", (f"{SHA1}: missing, not a file",)),
    Row(
        "vocabulary truncated", f"truncate -s 14 {PLAIN}",
        (f"{PLAIN}: sha256 is *, not *",),
    ),
    Row(
        "vocabulary of another owner", f"chown llm:llm {PLAIN}",
        (f"{PLAIN}: owner is llm, not root, group is llm, not root",),
    ),
    Row("vocabulary of another mode", f"chmod 0600 {SHA1}", (f"{SHA1}: mode is 0600, not 0644",)),
    Row(
        "vocabulary replaced by a link", f"mv {PLAIN} {PLAIN}.old; ln -s {PLAIN}.old {PLAIN}",
        (f"{PLAIN}: link, not a file", f"{PLAIN}.old: is not ours"),
    ),
    Row("a .1 copy beside the vocabulary", f"head -c 9 {PLAIN} >{PLAIN}.1",
        (f"{PLAIN}.1: is not ours",)),
    Row(
        "vocabulary's directory of another owner", f"chown llm {TIKTOKEN}",
        (f"{TIKTOKEN}: owner is llm, not root",),
    ),
    Row("shard truncated", f"{ENTER}truncate -s 100 {SHARD}", (CHANGED,), prove=verified),
    Row("shard missing", f"{ENTER}rm {SHARD}", (MISSING,), prove=verified),
    Row(
        "shard replaced by a dangling link", f"{ENTER}ln -sf ../blobs/gone {SHARD}",
        (MISSING,), prove=verified,
    ),
    Row(
        "one byte of a shard flipped under the old mtime", FLIP,
        (CHANGED,), words=("--data", "verify=deep"), prove=verified,
    ),
    Row(
        "original/ appeared",
        f"{ENTER}mkdir original\nhead -c 5000 /dev/zero >original/consolidated.safetensors",
        (f"{PARENT}/*/original: 5000 bytes of an earlier download, not used; remove it yourself "
         "to free them",),
        way="noted", undo=f"{ENTER}rm -rf original",
    ),
    Row(
        "manifest edited", f"{ENTER}sed -i 's/apache-2.0/mit/' MANIFEST.json",
        (f"{PARENT}/*: changed MANIFEST.json",), prove=verified,
    ),
    Row(
        "list of hashes deleted", f"{ENTER}rm SHA256SUMS",
        (f"{PARENT}/*: changed SHA256SUMS",), prove=verified,
    ),
    Row(
        "Hub client damaged",
        f"truncate -s 10 {CLIENT}/current/lib/python3*/site-packages/huggingface_hub/hf_api.py",
        (f"{CLIENT}/current/lib/python3*/site-packages/huggingface_hub/hf_api.py: changed",),
    ),
    Row(
        "a package of the Hub client removed",
        f"rm -r {CLIENT}/current/lib/python3*/site-packages/fsspec",
        (f"{CLIENT}/current/lib/python3*/site-packages/fsspec/*: missing",
         "Hub client: * more files differ"),
    ),
    Row(
        "Hub client's link moved", f"ln -sfn elsewhere {CLIENT}/current",
        (f"{CLIENT}/current: no environment *",),
    ),
)  # fmt: skip
