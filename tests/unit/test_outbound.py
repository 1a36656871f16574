"""Which sockets count as a service talking to others."""

from __future__ import annotations

from tests.unit.machine_case import program

SS = """\
tcp LISTEN 0 4096 127.0.0.1:8080 0.0.0.0:* users:(("llama-server",pid=7,fd=5))
tcp ESTAB 0 0 10.0.0.2:8080 10.0.0.9:50000 users:(("llama-server",pid=7,fd=9))
tcp ESTAB 0 0 127.0.0.1:40000 127.0.0.1:8080 users:(("llama-server",pid=7,fd=8))
tcp ESTAB 0 0 [::ffff:127.0.0.1]:40002 [::ffff:127.0.0.1]:5000 users:(("x",pid=7,fd=8))
tcp SYN-SENT 0 1 10.0.0.2:40001 192.0.2.1:443 users:(("llama-server",pid=7,fd=10))
tcp ESTAB 0 0 10.0.0.2:22 10.0.0.9:60000 users:(("sshd",pid=70,fd=4))
udp UNCONN 0 0 0.0.0.0:5353 0.0.0.0:* users:(("llama-server",pid=7,fd=11))
udp ESTAB 0 0 [fe80::1%eth0]:600 [fd00::53]:53 users:(("llama-server",pid=7,fd=12))
"""


def test_only_what_the_service_opened_to_others_counts() -> None:
    lines = program("outbound").outbound(SS, {7})
    assert [line.split(" users")[0] for line in lines] == [
        "tcp SYN-SENT to 192.0.2.1 port 443",
        "udp ESTAB to fd00::53 port 53",
    ]


def test_another_process_does_not_count() -> None:
    assert program("outbound").outbound(SS, {70}) == [
        'tcp ESTAB to 10.0.0.9 port 60000 users:(("sshd",pid=70,fd=4))'
    ]
