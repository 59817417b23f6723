"""A seller built on the SDK: its registry and outbox write the rows, its worker can deliver them too.

Changes one thing of the SDK, and only in this process: `adcp.signing.jwks.validate_resolved_ip`, which refuses
loopback by design, lets every address pass. The receivers of the tests are on loopback.
"""

from __future__ import annotations

import asyncio
import base64
import os
from types import SimpleNamespace
from typing import Any

import adcp.signing.jwks
from adcp.decisioning import PgTaskRegistry
from adcp.decisioning.pg import PgTaskWebhookOutbox
from adcp.decisioning.task_registry import TaskWebhookAuthentication
from adcp.decisioning.types import AdcpError
from adcp.webhook_sender import ScopePermanentlyUnknown, WebhookSender, WebhookSenderResolution
from adcp.webhook_supervisor import RetryPolicy
from channel import Command
from psycopg_pool import AsyncConnectionPool

ALGORITHM_NAMES = {"ed25519": "ed25519", "ecdsa-p256-sha256": "es256"}


def sender_from(key: dict[str, str], timeout_seconds: float = 10.0) -> WebhookSender:
    return WebhookSender.from_pem(
        key["pem"].encode(),
        key_id=key["kid"],
        alg=ALGORITHM_NAMES[key["algorithm"]],
        timeout_seconds=timeout_seconds,
    )


class Scopes:
    """The SDK's protocol for scoped signing, over a table that the test gave."""

    def __init__(self, keys: dict[str, dict[str, str]]) -> None:
        self._keys = keys

    async def resolve(self, signing_scope_id: str) -> WebhookSenderResolution:
        key = self._keys.get(signing_scope_id)
        if key is None:
            raise ScopePermanentlyUnknown
        return WebhookSenderResolution(
            sender=sender_from(key), advertised_algorithms=frozenset({key["algorithm"]})
        )


class Seller:
    def __init__(self) -> None:
        self.pool: AsyncConnectionPool
        self.outbox: PgTaskWebhookOutbox
        self.registry: PgTaskRegistry
        self.workers: list[asyncio.Task[Any]] = []

    async def open(
        self,
        dsn: str,
        key: str,
        signing: dict[str, str] | None = None,
        scopes: dict[str, dict[str, str]] | None = None,
        legacy_hmac: bool = False,
        lease_seconds: int = 60,
        timeout_seconds: float = 10.0,
        retry_seconds: list[float] | None = None,
        ca: str | None = None,
    ) -> None:
        adcp.signing.jwks.validate_resolved_ip = lambda *_args, **_kwargs: None
        if ca is not None:
            os.environ["SSL_CERT_FILE"] = ca
        self.pool = AsyncConnectionPool(dsn, min_size=1, max_size=8, open=False)
        await self.pool.open()
        self.outbox = PgTaskWebhookOutbox(
            pool=self.pool,
            sender=sender_from(signing, timeout_seconds) if signing else None,
            sender_resolver=Scopes(scopes) if scopes else None,
            encryption_key=bytes.fromhex(key),
            delivery_retry_horizon_seconds=86_400,
            lease_seconds=lease_seconds,
            retry=RetryPolicy(base_delay_seconds=retry_seconds[0], max_delay_seconds=retry_seconds[1])
            if retry_seconds
            else None,
            legacy_hmac_fallback=legacy_hmac,
        )
        self.registry = PgTaskRegistry(
            pool=self.pool,
            task_webhook_outbox=self.outbox,
            webhook_signing_scope_resolver=(lambda context: context.scope) if scopes else None,
        )
        await self.registry.create_schema()
        await self.outbox.create_schema()

    async def issue(self, tasks: list[dict[str, Any]]) -> list[str]:
        """Issues tasks that somebody else brings to their end; answers their ids."""
        return [
            await self.registry.issue(
                account_id=task.get("account_id", "acc_1"),
                task_type=task.get("task_type", "create_media_buy"),
                webhook_url=task["url"],
                webhook_operation_id=task["operation_id"],
                webhook_token=task.get("token"),
            )
            for task in tasks
        ]

    async def emit(self, tasks: list[dict[str, Any]]) -> list[dict[str, str]]:
        """Issues every task and brings it to its end; answers the bodies that were sealed."""
        return [await self._emit(**task) for task in tasks]

    async def _emit(
        self,
        url: str,
        operation_id: str,
        account_id: str = "acc_1",
        task_type: str = "create_media_buy",
        token: str | None = None,
        authentication: list[str] | None = None,
        scope: str | None = None,
        result: dict[str, Any] | None = None,
        error: dict[str, Any] | None = None,
    ) -> dict[str, str]:
        if scope is not None:
            scope = await self.registry.resolve_webhook_signing_scope(SimpleNamespace(scope=scope))
        task_id = await self.registry.issue(
            account_id=account_id,
            task_type=task_type,
            webhook_url=url,
            webhook_operation_id=operation_id,
            webhook_token=token,
            webhook_authentication=TaskWebhookAuthentication(*authentication) if authentication else None,
            webhook_signing_scope_id=scope,
        )
        if error is not None:
            await self.registry.fail(task_id, error)
        else:
            await self.registry.complete(task_id, result or {"media_buy_id": "mb_1"})
        return {"task_id": task_id, "body": base64.b64encode(await self._sealed_body(task_id)).decode()}

    async def register(self, tasks: list[dict[str, Any]]) -> list[str]:
        """Issues every task and leaves it open; answers their ids."""
        return [await self._register(**task) for task in tasks]

    async def _register(
        self,
        url: str,
        operation_id: str,
        account_id: str = "acc_1",
        task_type: str = "create_media_buy",
        token: str | None = None,
        authentication: list[str] | None = None,
    ) -> str:
        return await self.registry.issue(
            account_id=account_id,
            task_type=task_type,
            webhook_url=url,
            webhook_operation_id=operation_id,
            webhook_token=token,
            webhook_authentication=TaskWebhookAuthentication(*authentication) if authentication else None,
        )

    async def complete(self, task_id: str) -> None:
        """Ends a task that is there already, whoever sealed its registration."""
        await self.registry.complete(task_id, {"media_buy_id": "mb_1"})

    async def cannot_complete(self, task_id: str) -> str:
        """Why the SDK cannot end a task whose registration it does not understand."""
        try:
            await self.registry.complete(task_id, {"media_buy_id": "mb_1"})
        except ValueError as error:
            return str(error)
        return "it can"

    async def open_registration(self, task: dict[str, str], sealed: str, nonce: str) -> list[Any]:
        """What the SDK reads in a registration: URL, operation id, token, credentials, scope."""
        url, operation_id, token, authentication, scope = self.outbox._open_registration_with_scope(
            account_id=task["account_id"],
            task_id=task["task_id"],
            task_type=task["task_type"],
            encrypted_registration=base64.b64decode(sealed),
            nonce=base64.b64decode(nonce),
        )
        credentials = [authentication.scheme, authentication.credentials] if authentication else None
        return [url, operation_id, token, credentials, scope]

    async def sealed_body(self, task_id: str) -> str:
        """What the SDK reads in the outbox row of a task."""
        return base64.b64encode(await self._sealed_body(task_id)).decode()

    async def _sealed_body(self, task_id: str) -> bytes:
        """What a receiver must get, read back from the row through the SDK's own envelope code."""
        async with self.pool.connection() as connection:
            cursor = await connection.execute(
                "SELECT encrypted_body, envelope_nonce, account_id, task_type, terminal_status, url,"
                " operation_id, idempotency_key, signing_scope_id"
                " FROM adcp_task_webhook_outbox WHERE task_id = %s",
                (task_id,),
            )
            row = await cursor.fetchone()
        assert row is not None
        sealed, nonce, account_id, task_type, status, url, operation_id, idempotency_key, scope = row
        aad = PgTaskWebhookOutbox._envelope_aad(
            account_id=account_id,
            task_id=task_id,
            task_type=task_type,
            status=status,
            url=url,
            operation_id=operation_id,
            idempotency_key=idempotency_key,
            signing_scope_id=scope,
        )
        plaintext = self.outbox._cipher.decrypt(bytes(nonce), bytes(sealed), aad)
        body, _authentication = self.outbox._open_delivery_body(plaintext)
        return body

    async def work(self, workers: int, poll_interval: float = 0.1) -> None:
        for _ in range(workers):
            worker = self.outbox.run_worker(poll_interval=poll_interval)
            self.workers.append(asyncio.create_task(worker))

    async def send_standard(self, url: str, secret: str, idempotency_key: str) -> int | None:
        """One webhook of the SDK's sender of Standard Webhooks, sent at once; answers the status."""
        sender = WebhookSender.from_standard_webhooks_secret(secret, key_id="unused")
        sent = await sender.send_mcp(
            url=url,
            task_id="task_standard",
            task_type="create_media_buy",
            status="completed",
            operation_id="op_1",
            result={"media_buy_id": "mb_1", "packages": []},
            idempotency_key=idempotency_key,
        )
        return sent.status_code

    async def rest(self) -> None:
        for worker in self.workers:
            worker.cancel()
        await asyncio.gather(*self.workers, return_exceptions=True)
        self.workers.clear()

    async def claim_and_hang(self) -> str:
        """Claims a row as a worker does and never comes to sending it; answers the row's key."""
        claimed: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def hang(prepared: Any, *_args: Any) -> None:
            claimed.set_result(prepared.idempotency_key)
            await asyncio.Event().wait()

        self.outbox._deliver_prepared = hang  # type: ignore[method-assign]
        self.workers.append(asyncio.create_task(self.outbox.process_one()))
        return await claimed


class Tasks:
    """A task registry of the SDK on a schema of its own or of somebody else's, driven by lists of operations.

    Operations name tasks by number; the ids that this side issued are answered, and others' are told with the operations.
    """

    def __init__(self) -> None:
        self.pool: AsyncConnectionPool
        self.registry: PgTaskRegistry
        self.events: list[str] = []

    async def open(self, dsn: str, key: str, schema: str, signing: dict[str, str]) -> None:
        async def choose(connection: Any) -> None:
            await connection.execute(f"SET search_path = {schema}")
            await connection.commit()

        self.pool = AsyncConnectionPool(dsn, min_size=1, max_size=1, open=False, configure=choose)
        await self.pool.open()
        outbox = PgTaskWebhookOutbox(
            pool=self.pool,
            sender=sender_from(signing),
            encryption_key=bytes.fromhex(key),
            delivery_retry_horizon_seconds=86_400,
        )
        self.registry = PgTaskRegistry(pool=self.pool, task_webhook_outbox=outbox)
        self.registry.add_lifecycle_observer(lambda event, **_task: self.events.append(event))
        await self.registry.create_schema()
        await outbox.create_schema()

    async def apply(self, operations: list[dict[str, Any]], ids: dict[str, str]) -> list[Any]:
        return [await self._apply(operation, ids) for operation in operations]

    async def _apply(self, operation: dict[str, Any], ids: dict[str, str]) -> Any:
        """What came of it: an id, a record, a page, the event that it caused, or the SQLSTATE that stands for the error."""
        self.events.clear()
        task_id = ids.get(str(operation.get("task")), "task_unknown")
        try:
            match operation["do"]:
                case "issue":
                    issued = await self.registry.issue(**operation["arguments"])
                    ids[str(operation["task"])] = issued
                    return {"id": issued}
                case "progress":
                    await self.registry.update_progress(task_id, operation["document"])
                case "complete":
                    await self.registry.complete(task_id, operation["document"])
                case "fail":
                    await self.registry.fail(task_id, operation["document"])
                case "discard":
                    await self.registry.discard(task_id)
                case "get":
                    record = await self.registry.get(task_id, expected_account_id=operation["account"])
                    return {"record": record}
                case "list":
                    return {"page": await self.registry.list(**operation["arguments"])}
        except ValueError as error:
            return {"error": next(state for text, state in REFUSALS.items() if text in str(error))}
        except AdcpError as error:
            return {"error": "OD016", "field": error.field}
        return {"events": list(self.events)}


# What the registry's errors say, and the SQLSTATE under which our functions say it.
REFUSALS = {
    "not found": "OD001",
    "already completed with a different result": "OD002",
    "already failed with a different error": "OD003",
    "already in terminal state": "OD004",
    "account_id must be": "OD010",
}


def commands() -> dict[str, Command]:
    seller, tasks = Seller(), Tasks()
    return {
        "open": seller.open,
        "issue": seller.issue,
        "emit": seller.emit,
        "register": seller.register,
        "complete": seller.complete,
        "cannot_complete": seller.cannot_complete,
        "open_registration": seller.open_registration,
        "sealed_body": seller.sealed_body,
        "work": seller.work,
        "send_standard": seller.send_standard,
        "rest": seller.rest,
        "claim_and_hang": seller.claim_and_hang,
        "open_tasks": tasks.open,
        "apply": tasks.apply,
    }
