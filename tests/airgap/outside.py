"""What a machine sends to anybody but the laptop, counted on its cable."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Collection
from dataclasses import dataclass, field

ALL = 0x0003  # linux/if_ether.h: ETH_P_ALL
IPV4, ARP, IPV6 = 0x0800, 0x0806, 0x86DD
TCP = 6
SSH = 22


@dataclass
class Cable:
    """Counts frames that a machine sends; those to the laptop on known ways are not outside.

    + link: the host's end of the cable; address: the machine's; laptop: the only address it may
      talk to; ports: of the laptop that it may begin to talk to (the mirror's)
    """

    link: str
    address: str
    laptop: str
    ports: Collection[int] = ()
    inside: int = 0
    outside: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL))
        self._socket.bind((self.link, 0))
        self._socket.settimeout(0.2)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Count no more."""
        self._done.set()
        self._thread.join()
        self._socket.close()

    def _listen(self) -> None:
        while not self._done.is_set():
            with contextlib.suppress(TimeoutError):
                frame, info = self._socket.recvfrom(2048)
                if info[2] != socket.PACKET_OUTGOING:  # what the host sends to the machine
                    self.judge(frame)

    def judge(self, frame: bytes) -> None:
        """One frame of the machine's."""
        kind = struct.unpack("!H", frame[12:14])[0]
        if kind == ARP:
            asked = socket.inet_ntoa(frame[38:42])
            self._count(asked in (self.laptop, self.address), f"ARP for {asked}")
        elif kind == IPV4:
            self._judge_ip(frame[14:])
        else:
            self._count(False, f"ethertype {kind:#06x}")

    def _judge_ip(self, packet: bytes) -> None:
        to, length = socket.inet_ntoa(packet[16:20]), (packet[0] & 15) * 4
        if packet[9] != TCP:
            self._count(False, f"protocol {packet[9]} to {to}")
            return
        source, target = struct.unpack("!HH", packet[length : length + 4])
        known = source == SSH or target in self.ports
        self._count(to == self.laptop and known, f"TCP to {to}:{target}")

    def _count(self, fine: bool, what: str) -> None:
        if fine:
            self.inside += 1
        else:
            self.outside.append(what)
