"""A round-robin proxy for the replicas on one machine: proxy.py PORT REPLICA_PORT...

A connection that a replica refuses goes to the next one. A request that was sent is not sent again, because it may
have been carried out.
"""

import asyncio
import itertools
import sys

PATIENCE_SECONDS = 5


async def connect(turns, count):
    """Connects to the next replica that accepts."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while True:
        for port in itertools.islice(turns, count):
            try:
                return await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                continue
        if asyncio.get_running_loop().time() > deadline:
            return None
        await asyncio.sleep(0.1)


async def copy(reader, writer):
    """Copies bytes until their end."""
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        pass


async def main(port, replicas):
    turns = itertools.cycle(replicas)

    async def serve(reader, writer):
        replica = await connect(turns, len(replicas))
        if replica is None:
            writer.write(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        else:
            upward = asyncio.create_task(copy(reader, replica[1]))
            await copy(replica[0], writer)
            upward.cancel()
            replica[1].close()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    try:
        asyncio.run(main(int(sys.argv[1]), [int(port) for port in sys.argv[2:]]))
    except KeyboardInterrupt:
        pass
