"""The gateway of `gateway.js`, with asyncio."""

import asyncio
import sys


async def main(port, bank_port):
    from_bank, to_bank = await asyncio.open_connection("127.0.0.1", bank_port)
    asked = asyncio.Lock()

    async def find_balance():
        async with asked:
            to_bank.write(b"balance\n")
            return await from_bank.readline()

    async def serve(reader, writer):
        while request := await reader.readuntil(b"\r\n\r\n"):
            page = await find_balance() if request.startswith(b"GET /balance ") else b"ok"
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(page), page))

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    await server.serve_forever()


asyncio.run(main(*map(int, sys.argv[1:])))
