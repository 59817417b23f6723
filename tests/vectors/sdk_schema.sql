-- The tables that Python package adcp 9.2.0 makes, as `pg_dump --schema-only --no-owner` of PostgreSQL 15 shows
-- them after PgTaskWebhookOutbox.create_schema() and PgTaskRegistry.create_schema(). A fixture for tests: what
-- we find on a database that the package made.

CREATE TABLE public.adcp_task_webhook_outbox (
    id bigint NOT NULL,
    task_id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL COLLATE pg_catalog."C",
    task_type text NOT NULL,
    terminal_status text NOT NULL,
    url text NOT NULL,
    operation_id text NOT NULL,
    idempotency_key text NOT NULL COLLATE pg_catalog."C",
    signing_scope_id text COLLATE pg_catalog."C",
    encrypted_body bytea NOT NULL,
    envelope_nonce bytea NOT NULL,
    state text DEFAULT 'pending'::text NOT NULL,
    attempt_count integer DEFAULT 0 NOT NULL,
    available_at timestamp with time zone DEFAULT now() NOT NULL,
    lease_token text COLLATE pg_catalog."C",
    lease_expires_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    first_attempt_at timestamp with time zone,
    retry_until timestamp with time zone,
    retry_horizon_seconds integer NOT NULL,
    delivered_at timestamp with time zone,
    last_http_status integer,
    last_error text,
    CONSTRAINT adcp_task_webhook_outbox_attempt_count_check CHECK ((attempt_count >= 0)),
    CONSTRAINT adcp_task_webhook_outbox_check CHECK (((first_attempt_at IS NULL) = (retry_until IS NULL))),
    CONSTRAINT adcp_task_webhook_outbox_check1 CHECK (((retry_until IS NULL) OR (retry_until > first_attempt_at))),
    CONSTRAINT adcp_task_webhook_outbox_envelope_nonce_check CHECK ((octet_length(envelope_nonce) = 12)),
    CONSTRAINT adcp_task_webhook_outbox_retry_horizon_seconds_check CHECK (((retry_horizon_seconds >= 86400) AND (retry_horizon_seconds <= 604800))),
    CONSTRAINT adcp_task_webhook_outbox_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'in_flight'::text, 'delivered'::text, 'expired'::text, 'invalid'::text]))),
    CONSTRAINT adcp_task_webhook_outbox_terminal_status_check CHECK ((terminal_status = ANY (ARRAY['completed'::text, 'failed'::text])))
);
CREATE SEQUENCE public.adcp_task_webhook_outbox_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.adcp_task_webhook_outbox_id_seq OWNED BY public.adcp_task_webhook_outbox.id;
CREATE TABLE public.decisioning_tasks (
    task_id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL COLLATE pg_catalog."C",
    state text DEFAULT 'submitted'::text NOT NULL,
    task_type text NOT NULL,
    progress jsonb,
    result jsonb,
    error jsonb,
    request_context jsonb,
    webhook_registration bytea,
    webhook_registration_nonce bytea,
    created_at double precision NOT NULL,
    updated_at double precision NOT NULL
);
ALTER TABLE ONLY public.adcp_task_webhook_outbox ALTER COLUMN id SET DEFAULT nextval('public.adcp_task_webhook_outbox_id_seq'::regclass);
ALTER TABLE ONLY public.adcp_task_webhook_outbox
    ADD CONSTRAINT adcp_task_webhook_outbox_idempotency_key_key UNIQUE (idempotency_key);
ALTER TABLE ONLY public.adcp_task_webhook_outbox
    ADD CONSTRAINT adcp_task_webhook_outbox_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.adcp_task_webhook_outbox
    ADD CONSTRAINT adcp_task_webhook_outbox_task_id_key UNIQUE (task_id);
ALTER TABLE ONLY public.decisioning_tasks
    ADD CONSTRAINT decisioning_tasks_pkey PRIMARY KEY (task_id);
CREATE INDEX adcp_task_webhook_outbox_retry_until_idx ON public.adcp_task_webhook_outbox USING btree (retry_until);
CREATE INDEX adcp_task_webhook_outbox_work_idx ON public.adcp_task_webhook_outbox USING btree (available_at, id) WHERE (state = ANY (ARRAY['pending'::text, 'in_flight'::text]));
CREATE INDEX decisioning_tasks_account_idx ON public.decisioning_tasks USING btree (account_id);
