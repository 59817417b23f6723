"""What the SDK says of URLs, and the associated data that it binds rows to: asked in batches, for comparison.

Changes one thing of the SDK's world, and only in this process: names resolve to the addresses that the test gives.
Addresses in every spelling that getaddrinfo reads without asking anybody are read by it.
"""

from __future__ import annotations

import base64
import socket
from typing import Any

from adcp.decisioning.pg import PgTaskWebhookOutbox
from adcp.webhooks import WebhookDestinationValidationError, validate_webhook_destination_url
from channel import Command
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_real_getaddrinfo = socket.getaddrinfo

# The SDK's refusals under one reason, told apart by the part of its sentence that does not vary.
SSRF_KINDS = {
    "is not IDNA-valid": "idna",
    "unsupported URI scheme": "scheme",
    "URI has no host": "no_host",
    "invalid port": "port",
    "cannot resolve host": "unresolved",
    "cloud metadata": "metadata",
    "reserved range": "reserved",
}


def answering(answers: list[str]) -> Any:
    def getaddrinfo(host: Any, port: Any, *rest: Any, **options: Any) -> Any:
        try:
            return _real_getaddrinfo(host, port, flags=socket.AI_NUMERICHOST)
        except (OSError, UnicodeError):
            pass
        found = []
        for answer in answers:
            found += _real_getaddrinfo(answer, port, flags=socket.AI_NUMERICHOST)
        return found

    return getaddrinfo


def judged(url: str) -> dict[str, Any]:
    """The registration-time check of a buyer's URL, then the outbox's own before it stores a row."""
    try:
        told = validate_webhook_destination_url(url)
    except WebhookDestinationValidationError as error:
        reason = error.reason
        if reason == "ssrf_rejected":
            kinds = [kind for part, kind in SSRF_KINDS.items() if part in str(error)]
            reason = f"ssrf_{kinds[0] if kinds else 'other'}"
        return {"refused": reason}
    except Exception as error:  # noqa: BLE001: a crash of the validator refuses the URL as well
        return {"refused": f"raised_{type(error).__name__}"}
    try:
        PgTaskWebhookOutbox._validate_callback_url(url)
    except Exception as error:  # noqa: BLE001
        return {"refused": f"outbox_{type(error).__name__}"}
    return {"host": told.hostname, "port": told.port}


async def judge(urls: list[str], answers: list[str]) -> list[dict[str, Any]]:
    socket.getaddrinfo = answering(answers)
    try:
        return [judged(url) for url in urls]
    finally:
        socket.getaddrinfo = _real_getaddrinfo


async def bind(rows: list[dict[str, Any]]) -> list[str]:
    """The associated data of each row or registration, in base64."""
    return [base64.b64encode(aad(row)).decode() for row in rows]


def aad(row: dict[str, Any]) -> bytes:
    if row["kind"] == "registration":
        names = ("account_id", "task_id", "task_type")
        return PgTaskWebhookOutbox._registration_aad(**{name: row[name] for name in names})
    names = ("account_id", "task_id", "task_type", "url", "operation_id", "idempotency_key", "signing_scope_id")
    return PgTaskWebhookOutbox._envelope_aad(
        status=row["terminal_status"], **{name: row.get(name) for name in names}
    )


async def seal(rows: list[dict[str, Any]], key: str) -> list[dict[str, str]]:
    """Each row's plaintext under the associated data that the SDK makes of the row; nonces count upwards."""
    cipher = AESGCM(bytes.fromhex(key))
    sealed = []
    for count, row in enumerate(rows):
        nonce = count.to_bytes(12, "big")
        ciphertext = cipher.encrypt(nonce, base64.b64decode(row["plaintext"]), aad(row))
        sealed.append({"ciphertext": "\\x" + ciphertext.hex(), "nonce": "\\x" + nonce.hex()})
    return sealed


def commands() -> dict[str, Command]:
    return {"judge": judge, "bind": bind, "seal": seal}
