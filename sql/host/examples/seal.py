"""Seals one registration and one delivery for outboxd and prints both rows as JSON.

Needs the package `cryptography`. Usage: python3 seal.py KEY_FILE (a file of 64 hex digits). Writes to no database.
"""

import json
import os
import sys
from typing import Optional

from cryptography.hazmat.primitives.ciphers.aead import AESGCM


def seal(key: bytes, bound_to: list[str], plaintext: bytes) -> tuple[bytes, bytes]:
    """Ciphertext with its tag, and the nonce. A nonce must never be used twice under a key."""
    aad = json.dumps(bound_to, ensure_ascii=False, separators=(",", ":")).encode()
    nonce = os.urandom(12)
    return AESGCM(key).encrypt(nonce, plaintext, aad), nonce


def bytea(value: bytes) -> str:
    return "\\x" + value.hex()


def registration(key: bytes, task: dict[str, str], what: dict[str, Optional[str]]) -> dict[str, str]:
    bound_to = ["task-webhook-registration-v1", task["account_id"], task["task_id"], task["task_type"]]
    plaintext = json.dumps(what, ensure_ascii=False, separators=(",", ":")).encode()
    sealed, nonce = seal(key, bound_to, plaintext)
    return {**task, "webhook_registration": bytea(sealed), "webhook_registration_nonce": bytea(nonce)}


COLUMNS = ["account_id", "task_id", "task_type", "terminal_status", "url", "operation_id", "idempotency_key"]


def delivery(key: bytes, row: dict[str, str], body: bytes) -> dict[str, str]:
    bound_to = [row[column] for column in COLUMNS]
    if row.get("signing_scope_id") is not None:  # an eighth field, only where the column is not null
        bound_to.append(row["signing_scope_id"])
    sealed, nonce = seal(key, bound_to, body)
    return {**row, "encrypted_body": bytea(sealed), "envelope_nonce": bytea(nonce)}


def main() -> None:
    with open(sys.argv[1]) as file:
        key = bytes.fromhex(file.read().strip())
    # Awkward on purpose: everything that the associated data must escape, and much that it must not.
    task = {
        "account_id": "acc \"quoted\" \\ / é 😀 \u0001\b\t\n\f\r\u001f \u007f\u2028",
        "task_id": "task_0123456789abcdef",
        "task_type": "create_media_buy",
    }
    where = {"url": "https://buyer.example.com/hooks?x=%C3%A9", "operation_id": "op-1"}
    what = {**where, "token": "token-of-the-buyer", "authentication": None, "signing_scope_id": None}
    print(json.dumps(registration(key, task, what)))

    ended = {"terminal_status": "completed", "idempotency_key": "whk_3f2b8c1e-9a44-4b0d-8f6e-5d7c9b1a2e30"}
    body = {
        "idempotency_key": ended["idempotency_key"],
        "notification_id": task["task_id"] + ".terminal",
        "operation_id": where["operation_id"],
        "task_id": task["task_id"],
        "task_type": task["task_type"],
        "protocol": "media-buy",
        "status": ended["terminal_status"],
        "timestamp": "2026-01-02T03:04:05Z",
        "result": {"media_buy_id": "mb_1", "name": "Zoë 😀"},
    }
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    print(json.dumps(delivery(key, {**task, **where, **ended}, text)))


main()
