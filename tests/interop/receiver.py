"""An HTTPS receiver built on the SDK's own WebhookReceiver, which judges every request; it records all of them.

Paths under /plain are recorded and accepted unjudged: the SDK's receiver takes neither Bearer nor big integers.
Those under /standard are judged by the SDK's verifier of Standard Webhooks, which its receiver does not know.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import time
from typing import Any

from adcp.server.idempotency import MemoryBackend
from adcp.server.idempotency.webhook_dedup import WebhookDedupStore
from adcp.signing.jwks import CachingJwksResolver, StaticJwksResolver
from adcp.signing.standard_webhooks import StandardWebhookError, decode_secret, verify_standard_webhook
from adcp.signing.webhook_verifier import WebhookVerifyOptions
from adcp.webhook_receiver import LegacyHmacFallback, WebhookReceiver, WebhookReceiverConfig
from channel import Command


class Receiver:
    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.arrived = asyncio.Condition()
        self.refusals: dict[str, list[int]] = {}
        self.receiver: WebhookReceiver
        self.server: asyncio.Server
        self.standard_secret: str | None = None

    async def listen(
        self,
        certificate: str,
        private_key: str,
        jwks: list[dict[str, Any]] | None = None,
        hmac_secret: str | None = None,
        standard_secret: str | None = None,
        jwks_url: str | None = None,
        jwks_max_age: float = 1800.0,
    ) -> int:
        """Starts and answers the port. Keys are those of `jwks`, or those that the SDK fetches and keeps for a while."""
        self.standard_secret = standard_secret
        resolver: Any = StaticJwksResolver({"keys": jwks or []})
        if jwks_url is not None:
            # Hardly ever asked again for a key id that the set lacks: what is not published in time is not verified.
            resolver = CachingJwksResolver(
                jwks_url, allow_private=True, max_age_seconds=jwks_max_age, cooldown_seconds=jwks_max_age * 0.9
            )
        fallback = hmac_secret and LegacyHmacFallback.from_shared_secret(
            secret=hmac_secret.encode(), sender_identity="seller-legacy"
        )
        self.receiver = WebhookReceiver(
            WebhookReceiverConfig(
                verify_options=WebhookVerifyOptions(jwks_resolver=resolver),
                dedup=WebhookDedupStore(MemoryBackend(), ttl_seconds=86_400),
                receiver_scope="buyer-1",
                publisher_scope_for=lambda _signer: "seller-1",
                legacy_hmac=fallback or None,
            )
        )
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate, private_key)
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls, limit=16 * 1024 * 1024)
        return self.server.sockets[0].getsockname()[1]

    async def refuse(self, path: str, statuses: list[int]) -> None:
        """The next requests for this path get these statuses, unjudged."""
        self.refusals[path] = statuses

    async def wait(self, count: int) -> list[dict[str, Any]]:
        """Every record, once there are at least this many."""
        async with self.arrived:
            await self.arrived.wait_for(lambda: len(self.records) >= count)
        return self.records

    async def judge(self, target: str, host: str, headers: list[list[str]], body: str) -> dict[str, Any]:
        """What the receiver says of a request that the test made or replays."""
        return await self._judge(f"https://{host}{target}", dict(headers), base64.b64decode(body))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            # The sender closed a connection it no longer needs.
            pass
        finally:
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, target, _version = head[0].split(" ")
        headers = dict(line.split(": ", 1) for line in head[1:] if line)
        lower = {name.lower(): value for name, value in headers.items()}
        body = await reader.readexactly(int(lower["content-length"]))
        path = target.split("?", 1)[0]
        refusals = self.refusals.get(path, [])
        if refusals:
            verdict: dict[str, Any] = {"status": refusals.pop(0)}
        elif path.startswith("/plain"):
            verdict = {"status": 200}
        elif path.startswith("/standard"):
            verdict = self._judge_standard(headers, body)
        else:
            verdict = await self._judge(f"https://{lower['host']}{target}", headers, body)
        record = {
            "method": method,
            "target": target,
            "headers": list(headers.items()),
            "body": base64.b64encode(body).decode(),
            **verdict,
        }
        async with self.arrived:
            self.records.append(record)
            self.arrived.notify_all()
        reply = [f"HTTP/1.1 {verdict['status']} Judged", "Content-Length: 0"]
        reply += [f"{name}: {value}" for name, value in verdict.get("reply_headers", {}).items()]
        writer.write("\r\n".join([*reply, "", ""]).encode())
        await writer.drain()
        return lower.get("connection") != "close"

    def _judge_standard(self, headers: dict[str, str], body: bytes) -> dict[str, Any]:
        try:
            secret = decode_secret(self.standard_secret or "")
            verify_standard_webhook(headers=headers, body=body, secret=secret, now=time.time())
        except StandardWebhookError as error:
            return {"status": 401, "reason": str(error)}
        return {"status": 200}

    async def _judge(self, url: str, headers: dict[str, str], body: bytes) -> dict[str, Any]:
        outcome = await self.receiver.receive_and_process(
            method="POST", url=url, headers=headers, body=body, handler=lambda _payload: None
        )
        return {
            "status": outcome.http_status or 200,
            "reason": outcome.rejection_reason,
            "duplicate": outcome.duplicate,
            "sender": outcome.sender_identity,
            "reply_headers": dict(outcome.response_headers),
        }


def commands() -> dict[str, Command]:
    receiver = Receiver()
    return {
        "listen": receiver.listen,
        "refuse": receiver.refuse,
        "wait": receiver.wait,
        "judge": receiver.judge,
    }
