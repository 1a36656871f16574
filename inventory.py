"""pyinfra's inventory: the sparks of sparks.yaml (or of the file that SPARKS_FILE names).

pyinfra makes a group of every public list of this module, so the groups are all there is in it.
A bad file ends in a message here, before anything is contacted.
"""

from pathlib import Path as _Path

from sparkwright.fleet_pyinfra import groups_for_pyinfra as _groups_for_pyinfra

globals().update(_groups_for_pyinfra(_Path(__file__).resolve().parent))
