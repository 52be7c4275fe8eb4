"""A load generator: `load.py PORT CLIENTS SECONDS RATE`, with requests (path and body) as JSON
lines on standard input.

Each client keeps one connection and sends the next body when it has the last answer; with a RATE
above 0 all of them together send so many requests a second instead, whatever the answers take.
Prints one JSON object: answers, refusals, seconds, and milliseconds of each.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time

port, clients, seconds, rate = (
    int(sys.argv[1]),
    int(sys.argv[2]),
    float(sys.argv[3]),
    float(sys.argv[4]),
)
requests = [json.loads(line) for line in sys.stdin]
taken = itertools.count()
times: list[float] = []
statuses: dict[int, int] = {}


def raw(request: dict[str, object]) -> bytes:
    body = json.dumps(request["body"]).encode()
    head = (
        f"POST {request['path']} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


wires = [raw(request) for request in requests]


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, wire: bytes) -> None:
    began = time.perf_counter()
    writer.write(wire)
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    length = next(int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length"))
    await reader.readexactly(length)
    times.append(time.perf_counter() - began)
    status = int(head.split(b" ", 2)[1])
    statuses[status] = statuses.get(status, 0) + 1


async def client(end: float, start: float) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.perf_counter() < end:
        number = next(taken)
        if rate:
            await asyncio.sleep(max(0.0, start + number / rate - time.perf_counter()))
        await ask(reader, writer, wires[number % len(wires)])
    writer.close()


async def main() -> None:
    start = time.perf_counter()
    await asyncio.gather(*(client(start + seconds, start) for _ in range(clients)))
    took = time.perf_counter() - start
    print(json.dumps({"seconds": took, "statuses": statuses, "ms": [1e3 * t for t in times]}))


asyncio.run(main())
