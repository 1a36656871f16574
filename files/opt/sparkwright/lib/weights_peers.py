"""Files of a snapshot from other machines of the fleet, before anything is asked of the Hub.

Each file is hashed as it arrives and gets its name only with the hash of the lock; the job
records these hashes as it does those of its own downloads. The machine that the laptop chose for
the upstream leaves here as soon as the others have nothing for it, the others stay until they
have everything.
"""

from __future__ import annotations

from collections.abc import Callable

from spread_job import Spread, word
from spread_part import Part, settle
from spread_swarm import Swarm
from weights_hash import Hashes
from weights_plain import beside
from weights_progress import Progress
from weights_spec import File, Spec

# An hour: the chosen machine may wait for a slow or frozen upstream, and the laptop may be gone.
HOPELESS_S = 3600.0


def receive(
    spec: Spec, files: list[File], progress: Progress, say: Callable[[str], None]
) -> dict[str, Hashes]:
    """Receive what can be had; hashes of these files. Raises OSError."""
    spread = Spread(spec.spread or {})
    wanted = {file.path for file in files}
    total, left = spec.total_bytes, sum(file.size for file in files)
    begun = f"{len(files)} of {len(spec.files)} files, from {len(spread.peers)} machines"
    progress.phase("copy", total, total - left, begun)
    packs = [_parts(spec, file) if file.path in wanted else None for file in spec.files]
    swarm = Swarm(
        spread.peers,
        packs,
        progress.add,
        spread.told,
        HOPELESS_S,
        lambda swarm: progress.say(word(swarm, begun), swarm.lost()),
    )
    swarm.run()
    settle(place for place in swarm.proofs)
    for name, reason, _ in swarm.lost():
        say(f"left out: {name} ({reason})")
    names = {spec.dir / file.path: file.path for file in files}
    found = {names[p]: Hashes(proof.sha256, proof.git_sha1) for p, proof in swarm.proofs.items()}
    say(f"{len(found)} of {len(files)} files came from other machines")
    return found


def _parts(spec: Spec, file: File) -> list[Part]:
    here = beside(spec, file)
    partial = here.with_name(here.name + ".partial")
    return [Part(spec.dir / file.path, partial, file.size, file.expected)]
