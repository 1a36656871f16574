"""What a job's spec says about other machines, and how it goes, for the laptop.

Keys of "spread" in a spec:

+ item: path of the item's file on this machine (spread_item.py); key: the item's
+ peers: [[name, [addresses]], …] of machines that may have it, or will; port: of all of them
+ go: path of a file; when it is there, this machine is the one that gets the item elsewhere
+ manifest: sha256 of the text that lists a tree's files; "" for weights, whose files are known
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from spread_link import Peer, read_peers
from spread_swarm import Swarm

# What the laptop looks for in the progress file (spread.py there).
SILENT = "no other machine answers"


class Spread:
    """The "spread" part of a spec, read."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.item = Path(data["item"])
        self.go = Path(data["go"])
        self.manifest = str(data.get("manifest", ""))
        self.peers: list[Peer] = list(read_peers(data, self.token()))

    def token(self) -> str:
        """The item's token. Raises OSError when its file cannot be read."""
        return str(json.loads(self.item.read_text())["token"])

    def told(self) -> bool:
        """Whether the laptop wants this machine to get the rest elsewhere."""
        return self.go.exists()


def word(swarm: Swarm, begun: str) -> str:
    """The message beside the phase."""
    return SILENT if swarm.silent and swarm.waiting else begun
