"""A mail server that greets first and keeps what it is given: enough of SMTP for one session after the other. It prints its
address as JSON when it is ready. A message comes back as the answer to `XLAST`."""

import asyncio
import json

last = b""


async def session(reader, writer):
    def say(*lines):
        writer.write(b"".join(line + b"\r\n" for line in lines))

    global last
    say(b"220 mail.test ESMTP")
    while line := await reader.readline():
        verb = line.split()[0].upper() if line.split() else b""
        if verb == b"EHLO":
            say(b"250-mail.test", b"250-PIPELINING", b"250 8BITMIME")
        elif verb == b"DATA":
            say(b"354 go on")
            await writer.drain()
            last = await reader.readuntil(b"\r\n.\r\n")
            say(b"250 kept")
        elif verb == b"XLAST":
            say(b"250 %d" % len(last))
        elif verb in (b"MAIL", b"RCPT", b"NOOP", b"RSET"):
            say(b"250 ok")
        elif verb == b"QUIT":
            say(b"221 bye")
            break
        else:
            say(b"502 no")
        await writer.drain()
    writer.close()


async def main():
    server = await asyncio.start_server(session, "127.0.0.1", 0, limit=1 << 24)
    host, port = server.sockets[0].getsockname()
    print(json.dumps({"address": f"{host}:{port}"}), flush=True)
    await server.serve_forever()


asyncio.run(main())
