"""A TCP proxy that holds back every byte: a distant machine, on kernels without netem as well.

python -m benchmarks.delay TARGET_HOST TARGET_PORT ONE_WAY_MS: prints its port, then runs until it
is ended. The TCP handshake is not delayed; everything that SSH says is, in both directions.
"""

from __future__ import annotations

import asyncio
import sys


async def forward(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float
) -> None:
    """Pass bytes on, each after the delay; bytes do not wait for each other."""
    loop = asyncio.get_running_loop()
    while data := await reader.read(65536):
        loop.call_later(delay_s, writer.write, data)
    loop.call_later(delay_s, writer.close)


async def serve(host: str, port: int, delay_s: float) -> None:
    """Listen on a free port of the loopback."""
    tasks: set[asyncio.Task[None]] = set()

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(host, port)
        for pair in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.create_task(forward(*pair, delay_s))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(meet, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]) / 1000))
