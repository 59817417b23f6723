"""The SDK's registry of buyer agents and its store of proposals, told operations in batches.

Every operation is answered with what it came to: the value that it read, the error that it raised, and whether it
wrote any row. The decoder of recipes is the identity, since the tests compare what is stored.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timezone
from typing import Any

import psycopg
from adcp.decisioning.pg import PgBuyerAgentRegistry, PgProposalStore
from adcp.decisioning.proposal_store import ProposalRecord
from adcp.decisioning.registry import ApiKeyCredential, BuyerAgent, BuyerAgentDefaultTerms, OAuthCredential
from adcp.decisioning.types import AdcpError
from channel import Command
from psycopg_pool import AsyncConnectionPool, ConnectionPool

# A row that was written, even to what it held before, is a new version with another ctid or xmin.
VERSIONS = """
    SELECT (SELECT string_agg(ctid::text || '/' || xmin::text, ',' ORDER BY agent_url) FROM adcp_buyer_agents),
           (SELECT string_agg(ctid::text || '/' || xmin::text, ',' ORDER BY account_id, proposal_id)
              FROM adcp_proposal_drafts)
"""

TERMS = ("rate_card", "payment_terms", "credit_limit", "billing_entity")


def agent_read(agent: BuyerAgent | None) -> dict[str, Any] | None:
    if agent is None:
        return None
    terms = agent.default_account_terms
    return {
        "agent_url": agent.agent_url,
        "display_name": agent.display_name,
        "status": agent.status,
        "billing_capabilities": sorted(agent.billing_capabilities),
        "default_terms": terms
        and {name: value for name in TERMS if (value := getattr(terms, name)) is not None},
        "allowed_brands": None if agent.allowed_brands is None else sorted(agent.allowed_brands),
        "ext": agent.ext,
    }


def proposal_read(record: ProposalRecord | None) -> dict[str, Any] | None:
    if record is None:
        return None
    deadline = record.expires_at
    return {
        "account_id": record.account_id,
        "proposal_id": record.proposal_id,
        "state": record.state.value,
        "recipes": record.recipes,
        "proposal_payload": record.proposal_payload,
        "expires_at": deadline and deadline.astimezone(timezone.utc).isoformat(timespec="microseconds"),
        "media_buy_id": record.media_buy_id,
        "recipe_schema_version": record.recipe_schema_version,
    }


class Registry:
    def __init__(self) -> None:
        self.connection: psycopg.Connection[Any]
        self.agents: PgBuyerAgentRegistry
        self.proposals: PgProposalStore
        self.heard: list[list[str]] = []

    async def open(self, dsn: str) -> None:
        """Makes the tables where `dsn` says, if they are not there."""
        self.connection = psycopg.connect(dsn, autocommit=True)
        self.agents = PgBuyerAgentRegistry(pool=ConnectionPool(dsn, min_size=1, max_size=1, open=True))
        self.agents.create_schema()
        self.agents.add_mutation_observer(lambda op, agent_url: self.heard.append([op, agent_url]))
        pool = AsyncConnectionPool(dsn, min_size=1, max_size=1, open=False)
        await pool.open()
        self.proposals = PgProposalStore(pool=pool, recipe_decoder=lambda recipe: recipe)
        await self.proposals.create_schema()

    async def apply(self, operations: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [await self._apply(**operation) for operation in operations]

    async def hear(self) -> list[list[str]]:
        """What the observer of agents was told so far."""
        return self.heard

    async def _apply(self, op: str, **arguments: Any) -> dict[str, Any]:
        before = self._versions()
        outcome: dict[str, Any] = {"value": None, "error": None}
        known: dict[str, Callable[..., Awaitable[Any]]] = {
            "upsert_agent": self._upsert_agent,
            "set_agent_status": self._set_agent_status,
            "delete_agent": self._delete_agent,
            "resolve_agent_by_url": self._resolve_agent_by_url,
            "resolve_agent_by_credential": self._resolve_agent_by_credential,
            "put_draft": self.proposals.put_draft,
            "get_proposal": self._get_proposal,
            "commit_proposal": self._commit_proposal,
            "try_reserve_consumption": self._try_reserve_consumption,
            "finalize_consumption": self._on_account(self.proposals.finalize_consumption),
            "release_consumption": self._on_account(self.proposals.release_consumption),
            "mark_consumed": self._on_account(self.proposals.mark_consumed),
            "discard_proposal": self._on_account(self.proposals.discard),
            "get_proposal_by_media_buy": self._get_proposal_by_media_buy,
        }
        try:
            outcome["value"] = await known[op](**arguments)
        except AdcpError as error:
            outcome["error"] = {
                "class": "AdcpError",
                "message": str(error),
                "told": [error.code, error.recovery, error.field],
            }
        except psycopg.Error as error:
            outcome["error"] = {"class": "psycopg", "sqlstate": error.sqlstate}
        except ValueError as error:
            outcome["error"] = {"class": "ValueError", "message": str(error)}
        outcome["wrote"] = self._versions() != before
        return outcome

    def _versions(self) -> Any:
        return self.connection.execute(VERSIONS).fetchone()

    @staticmethod
    def _on_account(method: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        async def call(account_id: str, **arguments: Any) -> None:
            await method(expected_account_id=account_id, **arguments)

        return call

    async def _upsert_agent(
        self,
        api_key_id: str | None,
        billing_capabilities: list[str],
        default_terms: dict[str, Any] | None,
        allowed_brands: list[str] | None,
        **plain: Any,
    ) -> None:
        agent = BuyerAgent(
            billing_capabilities=frozenset(billing_capabilities),  # type: ignore[arg-type]
            default_account_terms=None if default_terms is None else BuyerAgentDefaultTerms(**default_terms),
            allowed_brands=None if allowed_brands is None else frozenset(allowed_brands),
            **plain,
        )
        self.agents.upsert(agent, api_key_id=api_key_id)

    async def _set_agent_status(self, agent_url: str, status: Any) -> None:
        self.agents.set_status(agent_url, status)

    async def _delete_agent(self, agent_url: str) -> None:
        self.agents.delete(agent_url)

    async def _resolve_agent_by_url(self, agent_url: str) -> dict[str, Any] | None:
        return agent_read(await self.agents.resolve_by_agent_url(agent_url))

    async def _resolve_agent_by_credential(self, api_key_id: str) -> dict[str, Any] | None:
        """As an API key and as an OAuth client, which are one to the registry."""
        by_key = await self.agents.resolve_by_credential(ApiKeyCredential(kind="api_key", key_id=api_key_id))
        oauth = OAuthCredential(kind="oauth", client_id=api_key_id, scopes=())
        assert await self.agents.resolve_by_credential(oauth) == by_key
        return agent_read(by_key)

    async def _get_proposal(self, account_id: str, proposal_id: str) -> dict[str, Any] | None:
        return proposal_read(await self.proposals.get(proposal_id, expected_account_id=account_id))

    async def _commit_proposal(
        self, account_id: str, proposal_id: str, expires_at: str, proposal_payload: dict[str, Any]
    ) -> None:
        await self.proposals.commit(
            proposal_id,
            expires_at=datetime.fromisoformat(expires_at),
            proposal_payload=proposal_payload,
            expected_account_id=account_id,
        )

    async def _try_reserve_consumption(self, account_id: str, proposal_id: str) -> dict[str, Any] | None:
        record = await self.proposals.try_reserve_consumption(proposal_id, expected_account_id=account_id)
        return proposal_read(record)

    async def _get_proposal_by_media_buy(self, account_id: str, media_buy_id: str) -> dict[str, Any] | None:
        record = await self.proposals.get_by_media_buy_id(media_buy_id, expected_account_id=account_id)
        return proposal_read(record)


def commands() -> dict[str, Command]:
    registry = Registry()
    return {"open": registry.open, "apply": registry.apply, "hear": registry.hear}
