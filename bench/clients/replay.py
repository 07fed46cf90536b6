"""A server that can only repeat itself: Secrets to list and to watch, made once and served at full speed.

What it sends is the same for everybody and costs it next to nothing, so a client's own work is what is measured.
Run: python -m bench.clients.replay FOLDER PORT EVENTS OBJECTS, with server.crt and server.key in the folder.
"""

from __future__ import annotations

import asyncio
import random
import ssl
import sys

from aiohttp import web

from bench.reconciles import a_secret
from watchword.runtime.event_loop import run

CHUNK = 64
BOOKMARK = (
    b'{"type":"BOOKMARK","object":{"apiVersion":"v1","kind":"Secret","metadata":{"resourceVersion":"%d",'
    b'"annotations":{"k8s.io/initial-events-end":"true"}}}}\n'
)


class Replay:
    """Answers lists and watches of Secrets."""

    def __init__(self, events: int, objects: int) -> None:
        source = random.Random(1)
        self._objects = [a_secret(number, source) for number in range(objects)]
        self._chunks = _chunks([a_secret(number, source) for number in range(events)])
        self._events = events

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        if request.path == "/readyz":
            return web.Response(text="ok")
        if request.query.get("watch") in {"1", "true", "True"}:
            return await self._watch(request)
        return self._list(request)

    def _list(self, request: web.Request) -> web.Response:
        objects = [] if "/namespaces/" in request.path else self._objects
        start = int(request.query.get("continue") or 0)
        end = start + int(request.query.get("limit") or len(objects) or 1)
        token = b'"%d"' % end if end < len(objects) else b'""'
        head = b'{"apiVersion":"v1","kind":"SecretList","metadata":{"resourceVersion":"1","continue":%s},"items":['
        body = b"".join([head % token, b",".join(objects[start:end]), b"]}"])
        return web.Response(body=body, content_type="application/json")

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        initial = request.query.get("sendInitialEvents") == "true"
        for chunk in _chunks(self._objects) if initial else self._chunks:
            await response.write(chunk)
        await response.write(BOOKMARK % self._events)
        await asyncio.sleep(3600)  # as a server does: the client ends the watch
        return response


def _chunks(objects: list[bytes]) -> list[bytes]:
    lines = [b'{"type":"ADDED","object":%s}\n' % raw for raw in objects]
    return [b"".join(lines[start : start + CHUNK]) for start in range(0, len(lines), CHUNK)]


async def main() -> None:
    """Listen on loopback until the process is ended."""
    folder, port, events, objects = sys.argv[1:]
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(f"{folder}/server.crt", f"{folder}/server.key")
    runner = web.ServerRunner(web.Server(Replay(int(events), int(objects)).serve))  # type: ignore[arg-type]
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", int(port), ssl_context=context).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    run(main())
