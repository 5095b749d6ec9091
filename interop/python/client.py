"""A client that goes through what the servers of these checks answer (docs/interop.md): `python client.py KIND URL`.
Kinds: 1 (HTTP/1.1) and 2 (HTTP/2 by prior knowledge) with httpx, ws with websockets. It fails with the first difference."""

import asyncio
import os
import sys

import httpx
import websockets

import pattern


async def exchanges(url, version):
    limits = httpx.Limits(max_connections=20)
    async with httpx.AsyncClient(
        base_url=url, http1=version == 1, http2=version == 2, limits=limits, timeout=30, trust_env=False
    ) as client:
        await small(client, version)
        await bodies(client)
        await many(client)


async def small(client, version):
    answer = await client.get("/a/path", params={"with": "a", "query": " /"})
    same(answer.http_version, f"HTTP/{version}" if version == 2 else "HTTP/1.1")
    same(answer.content, b"hello\n")
    same((await client.head("/bytes/5")).content, b"")
    same((await client.get("/status/204")).status_code, 204)
    same((await client.get("/status/418")).status_code, 418)
    same((await client.get("/chunks")).content, b"one\ntwo\nthree\n")
    same((await client.get("/cookies", headers={"cookie": "a=1; b=2"})).content, b"a=1\nb=2\n")


async def bodies(client):
    for length in (0, 1, 16383, 65536, 70001, 3 << 20):
        body = os.urandom(length)
        same((await client.post("/echo", content=body)).content, body)

    async def pieces():
        for number in range(50):
            yield str(number).encode() * 300

    want = b"".join([piece async for piece in pieces()])
    same((await client.put("/echo", content=pieces())).content, want)
    check = pattern.Check()
    async with client.stream("GET", "/bytes/5000001") as answer:
        async for piece in answer.aiter_raw():
            check.take(piece)
    same(check.total, 5000001)
    up = await client.post("/sink", content=b"".join(pattern.make(5000001)))
    same(up.content, b"5000001\n")


async def many(client):
    async def one(number):
        body = f"{number} ".encode() * 5000
        same((await client.post("/echo", content=body)).content, body)

    await asyncio.gather(*(one(number) for number in range(40)))


async def messages(url):
    target = url.replace("http", "ws", 1) + "/ws"
    async with websockets.connect(target, max_size=None, proxy=None) as socket:
        for body in ("", "text", os.urandom(126), os.urandom(70000), os.urandom(1 << 20)):
            await socket.send(body)
            same(await socket.recv(), body)
        await asyncio.wait_for(await socket.ping(), 10)
    same(socket.close_code, 1000)


def same(have, want):
    if have != want:
        sys.exit(f"{have!r:.200} is not {want!r:.200}")


KINDS = {"1": lambda url: exchanges(url, 1), "2": lambda url: exchanges(url, 2), "ws": messages}
asyncio.run(KINDS[sys.argv[1]](sys.argv[2]))
