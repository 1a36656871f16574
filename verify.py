"""
Proves what runs: `pyinfra inventory.py verify.py -y`.

Every check of `sparkwright verify`, with pyinfra's inventory, limits and output; a machine with a
check that fails is shown as failed. Reads only; `--data verify=deep` hashes every byte.
"""

from pyinfra import host

from sparkwright import interrupts
from sparkwright.verify_operations import proved

interrupts.listen()

proved(name="Prove what runs", data=host.data.dict())
