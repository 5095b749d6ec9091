"""An ASGI application that answers what every server of these checks answers (docs/interop.md), with WebSockets at /ws.
Run by hypercorn, which speaks HTTP/1.1 and, by prior knowledge, HTTP/2 on one port: `python server.py PORT`."""

import asyncio
import sys

import hypercorn.asyncio
import hypercorn.config

import pattern


async def application(scope, receive, send):
    if scope["type"] == "http":
        await Exchange(scope, receive, send).answer()
    elif scope["type"] == "websocket":
        await websocket(receive, send)
    elif scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})


async def websocket(receive, send):
    while (event := await receive())["type"] != "websocket.disconnect":
        if event["type"] == "websocket.connect":
            await send({"type": "websocket.accept"})
        else:
            await send({"type": "websocket.send", "bytes": event.get("bytes"), "text": event.get("text")})


class Exchange:
    """One request and its answer."""

    def __init__(self, scope, receive, send):
        self.scope, self.receive, self.send = scope, receive, send
        self.headers = dict(scope["headers"])

    async def answer(self):
        _, first, *rest = self.scope["path"].split("/")
        answers = {
            "echo": self.echo,
            "bytes": self.bytes,
            "sink": self.sink,
            "chunks": self.chunks,
            "status": self.status,
            "trailers": self.no_trailers,
            "cookies": self.cookies,
        }
        await answers.get(first, self.hello)(*rest)

    async def echo(self):
        length = self.headers.get(b"content-length")
        await self.begin(200, [(b"content-length", length)] if length else [])
        async for piece in self.body():
            await self.piece(piece)
        await self.piece(b"", last=True)

    async def bytes(self, length):
        await self.begin(200, [(b"content-length", length.encode())])
        if self.scope["method"] != "HEAD":
            for piece in pattern.make(int(length)):
                await self.piece(piece)
        await self.piece(b"", last=True)

    async def sink(self):
        check = pattern.Check()
        async for piece in self.body():
            check.take(piece)
        await self.whole(200, f"{check.total}\n".encode())

    async def chunks(self):
        await self.begin(200)
        for word in (b"one\n", b"two\n", b"three\n"):
            await self.piece(word)
        await self.piece(b"", last=True)

    async def status(self, code):
        await self.begin(int(code))
        await self.piece(b"", last=True)

    async def no_trailers(self):
        await self.whole(501, b"not over HTTP/1 in this server\n")

    async def cookies(self):
        lines = [value for name, value in self.scope["headers"] if name == b"cookie"]
        await self.whole(200, b"".join(one + b"\n" for one in b"; ".join(lines).split(b"; ")))

    async def hello(self, *_):
        async for _ in self.body():
            pass
        await self.whole(200, b"hello\n")

    async def body(self):
        more = True
        while more:
            event = await self.receive()
            if event["type"] == "http.disconnect":
                return
            yield event.get("body", b"")
            more = event.get("more_body", False)

    async def whole(self, code, body):
        await self.begin(code, [(b"content-length", str(len(body)).encode())])
        await self.piece(body, last=True)

    async def begin(self, code, headers=()):
        await self.send({"type": "http.response.start", "status": code, "headers": list(headers)})

    async def piece(self, body, last=False):
        await self.send({"type": "http.response.body", "body": body, "more_body": not last})


config = hypercorn.config.Config()
config.bind = [f"127.0.0.1:{sys.argv[1]}"]
config.errorlog = "-"
asyncio.run(hypercorn.asyncio.serve(application, config))
