"""What one would do with pyinfra alone: files.put of each file on each machine."""

from pathlib import Path

from pyinfra import host
from pyinfra.operations import files

for place in host.loop(sorted(Path(host.data.put_from).iterdir())):
    files.put(name=place.name, src=str(place), dest=f"/srv/other/{place.name}", _sudo=False)
