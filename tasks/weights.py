"""
Weights: the files that the recipes name, at a pinned revision, every byte proved by hash.

Leaves: {prefix}/hub-client/current, {data_dir}/weights/<repo>/<commit>/ with MANIFEST.json
Needs:  tasks.base (python3-venv, our programs)
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Any

from pyinfra import host
from pyinfra.api import deploy

from sparkwright import hub_client, weights_plan
from sparkwright.job_operations import detached
from sparkwright.site import Weights, artifact, lock_of, need, planned
from sparkwright.sources import source_of


@deploy("weights")
def install(data: Mapping[str, Any]) -> None:
    """First the client, then one download per snapshot; finished files are never fetched again."""
    client = artifact(data, "hub-client")
    detached(
        name="Install the Hub client",
        specs=hub_client.probes(data["prefix"]),
        plan=partial(
            hub_client.plan, data["prefix"], need(client.sha256), index=source_of(data).index()
        ),
    )
    for weights in host.loop(snapshots(data)):
        spec = weights_plan.spec_of(weights, data, lock_of(data).hub)
        detached(
            name=f"Have {weights.snapshot.repo}",
            specs=weights_plan.probes(spec, data["verify"] == "deep", data["service_user"]),
            plan=partial(
                weights_plan.plan, weights, spec, data["service_user"], os.environ.get("HF_TOKEN")
            ),
        )


def snapshots(data: Mapping[str, Any]) -> list[Weights]:
    """The snapshots of a machine, each once, in the same order on every machine."""
    models = [item.weights for item in planned(data) if item.weights]
    found = {model.directory: model for model in models}
    return [found[place] for place in sorted(found)]
