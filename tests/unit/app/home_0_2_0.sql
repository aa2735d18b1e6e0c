CREATE SEQUENCE jobs_number;
CREATE TABLE service (
	id VARCHAR(64) NOT NULL,
	has_epoch BOOLEAN DEFAULT false NOT NULL,
	CONSTRAINT pk_service PRIMARY KEY (id)
);
CREATE TABLE identities (
	id VARCHAR(64) NOT NULL,
	name VARCHAR(200) NOT NULL,
	role VARCHAR(16) NOT NULL,
	created_at VARCHAR(40) NOT NULL,
	CONSTRAINT pk_identities PRIMARY KEY (id),
	CONSTRAINT ck_identities_role CHECK (role in ('steward', 'analyst', 'auditor')),
	CONSTRAINT uq_identities_name UNIQUE (name)
);
CREATE TABLE ledgers (
	id VARCHAR(64) NOT NULL,
	family VARCHAR(200),
	state TEXT NOT NULL,
	CONSTRAINT pk_ledgers PRIMARY KEY (id),
	CONSTRAINT uq_ledgers_family UNIQUE (family)
);
CREATE TABLE holders (
	id VARCHAR(64) NOT NULL,
	boot VARCHAR(64) NOT NULL,
	beat BIGINT NOT NULL,
	CONSTRAINT pk_holders PRIMARY KEY (id)
);
CREATE TABLE subjects (
	issuer VARCHAR(1000) NOT NULL,
	subject VARCHAR(200) NOT NULL,
	identity_id VARCHAR(64) NOT NULL,
	CONSTRAINT pk_subjects PRIMARY KEY (issuer, subject),
	CONSTRAINT uq_subjects_identity_id UNIQUE (identity_id),
	CONSTRAINT fk_subjects_identity_id FOREIGN KEY(identity_id) REFERENCES identities (id)
);
CREATE TABLE tokens (
	id VARCHAR(64) NOT NULL,
	identity_id VARCHAR(64) NOT NULL,
	sha256 VARCHAR(64) NOT NULL,
	scopes VARCHAR(200),
	created_at VARCHAR(40) NOT NULL,
	expires_at VARCHAR(40),
	revoked_at VARCHAR(40),
	CONSTRAINT pk_tokens PRIMARY KEY (id),
	CONSTRAINT fk_tokens_identity_id FOREIGN KEY(identity_id) REFERENCES identities (id),
	CONSTRAINT uq_tokens_sha256 UNIQUE (sha256)
);
CREATE TABLE datasets (
	id VARCHAR(64) NOT NULL,
	ledger_id VARCHAR(64) NOT NULL,
	name VARCHAR(200) NOT NULL,
	rows BIGINT NOT NULL,
	spec TEXT NOT NULL,
	content_sha256 VARCHAR(64) NOT NULL,
	folder VARCHAR(200) NOT NULL,
	data VARCHAR(16) NOT NULL,
	created_at VARCHAR(40) NOT NULL,
	holdout_of VARCHAR(64),
	CONSTRAINT pk_datasets PRIMARY KEY (id),
	CONSTRAINT ck_datasets_data CHECK (data in ('stored', 'deleted', 'withdrawn')),
	CONSTRAINT fk_datasets_ledger_id FOREIGN KEY(ledger_id) REFERENCES ledgers (id)
);
CREATE INDEX ix_datasets_holdout ON datasets (holdout_of);
CREATE UNIQUE INDEX ix_datasets_name ON datasets (name) WHERE data != 'withdrawn';
CREATE INDEX ix_datasets_content ON datasets (content_sha256);
CREATE INDEX ix_datasets_ledger ON datasets (ledger_id);
CREATE TABLE allotments (
	ledger_id VARCHAR(64) NOT NULL,
	identity_id VARCHAR(64) NOT NULL,
	mode VARCHAR(16) NOT NULL,
	share FLOAT,
	epsilon FLOAT,
	delta FLOAT,
	set_by VARCHAR(200) NOT NULL,
	set_at VARCHAR(40) NOT NULL,
	CONSTRAINT pk_allotments PRIMARY KEY (ledger_id, identity_id),
	CONSTRAINT ck_allotments_mode CHECK (mode in ('reserved', 'shared')),
	CONSTRAINT ck_allotments_part CHECK ((share is null) = (epsilon is not null) and (epsilon is null) = (delta is null)),
	CONSTRAINT fk_allotments_ledger_id FOREIGN KEY(ledger_id) REFERENCES ledgers (id),
	CONSTRAINT fk_allotments_identity_id FOREIGN KEY(identity_id) REFERENCES identities (id)
);
CREATE TABLE ledger_entries (
	ledger_id VARCHAR(64) NOT NULL,
	sequence BIGINT NOT NULL,
	kind VARCHAR(16) NOT NULL,
	body TEXT NOT NULL,
	previous_hash VARCHAR(64) NOT NULL,
	hash VARCHAR(64) NOT NULL,
	CONSTRAINT pk_ledger_entries PRIMARY KEY (ledger_id, sequence),
	CONSTRAINT fk_ledger_entries_ledger_id FOREIGN KEY(ledger_id) REFERENCES ledgers (id)
);
CREATE INDEX ix_ledger_entries_external ON ledger_entries (ledger_id, sequence) WHERE kind = 'external';
CREATE INDEX ix_ledger_entries_promises ON ledger_entries (ledger_id, sequence) WHERE kind IN ('opened', 'promised');
CREATE TABLE checkpoints (
	ledger_id VARCHAR(64) NOT NULL,
	document TEXT NOT NULL,
	signature TEXT NOT NULL,
	CONSTRAINT pk_checkpoints PRIMARY KEY (ledger_id),
	CONSTRAINT fk_checkpoints_ledger_id FOREIGN KEY(ledger_id) REFERENCES ledgers (id)
);
CREATE TABLE turns (
	owner_id VARCHAR(64) NOT NULL,
	turn BIGINT NOT NULL,
	CONSTRAINT pk_turns PRIMARY KEY (owner_id),
	CONSTRAINT fk_turns_owner_id FOREIGN KEY(owner_id) REFERENCES identities (id)
);
CREATE TABLE webhooks (
	id VARCHAR(64) NOT NULL,
	owner_id VARCHAR(64) NOT NULL,
	url VARCHAR(1000) NOT NULL,
	created_at VARCHAR(40) NOT NULL,
	busy_until FLOAT NOT NULL,
	delivered_at VARCHAR(40),
	failures INTEGER NOT NULL,
	CONSTRAINT pk_webhooks PRIMARY KEY (id),
	CONSTRAINT uq_webhooks_owner_id UNIQUE (owner_id, url),
	CONSTRAINT fk_webhooks_owner_id FOREIGN KEY(owner_id) REFERENCES identities (id)
);
CREATE TABLE analyst_spend (
	ledger_id VARCHAR(64) NOT NULL,
	owner_id VARCHAR(64) NOT NULL,
	charges INTEGER NOT NULL,
	spent TEXT NOT NULL,
	CONSTRAINT pk_analyst_spend PRIMARY KEY (ledger_id, owner_id),
	CONSTRAINT fk_analyst_spend_ledger_id FOREIGN KEY(ledger_id) REFERENCES ledgers (id),
	CONSTRAINT fk_analyst_spend_owner_id FOREIGN KEY(owner_id) REFERENCES identities (id)
);
CREATE TABLE grants (
	dataset_id VARCHAR(64) NOT NULL,
	identity_id VARCHAR(64) NOT NULL,
	granted_by VARCHAR(200) NOT NULL,
	granted_at VARCHAR(40) NOT NULL,
	CONSTRAINT pk_grants PRIMARY KEY (dataset_id, identity_id),
	CONSTRAINT fk_grants_dataset_id FOREIGN KEY(dataset_id) REFERENCES datasets (id),
	CONSTRAINT fk_grants_identity_id FOREIGN KEY(identity_id) REFERENCES identities (id)
);
CREATE INDEX ix_grants_identity ON grants (identity_id, dataset_id);
CREATE TABLE stored_values (
	dataset_id VARCHAR(64) NOT NULL,
	sha256 VARCHAR(64) NOT NULL,
	damaged_at VARCHAR(40),
	CONSTRAINT pk_stored_values PRIMARY KEY (dataset_id),
	CONSTRAINT fk_stored_values_dataset_id FOREIGN KEY(dataset_id) REFERENCES datasets (id)
);
CREATE TABLE samples (
	dataset_id VARCHAR(64) NOT NULL,
	rows BIGINT NOT NULL,
	packed TEXT NOT NULL,
	published VARCHAR(200) NOT NULL,
	attached_by VARCHAR(200) NOT NULL,
	attached_at VARCHAR(40) NOT NULL,
	CONSTRAINT pk_samples PRIMARY KEY (dataset_id),
	CONSTRAINT fk_samples_dataset_id FOREIGN KEY(dataset_id) REFERENCES datasets (id)
);
CREATE TABLE jobs (
	id VARCHAR(64) NOT NULL,
	number BIGINT NOT NULL,
	kind VARCHAR(16) DEFAULT 'model' NOT NULL,
	dataset_id VARCHAR(64) NOT NULL,
	owner_id VARCHAR(64) NOT NULL,
	analyst VARCHAR(200) NOT NULL,
	idempotency_key VARCHAR(200) NOT NULL,
	request_sha256 VARCHAR(64) NOT NULL,
	request TEXT NOT NULL,
	quote TEXT NOT NULL,
	spec TEXT NOT NULL,
	charge TEXT NOT NULL,
	state VARCHAR(16) NOT NULL,
	attempt INTEGER NOT NULL,
	lost INTEGER NOT NULL,
	holder VARCHAR(64),
	boot VARCHAR(64) NOT NULL,
	ticks FLOAT NOT NULL,
	due FLOAT,
	ended TEXT,
	error VARCHAR(32),
	model TEXT,
	receipt TEXT,
	created_at VARCHAR(40) NOT NULL,
	started_at VARCHAR(40),
	finished_at VARCHAR(40),
	request_id VARCHAR(64),
	method VARCHAR(40),
	CONSTRAINT pk_jobs PRIMARY KEY (id),
	CONSTRAINT uq_jobs_owner_id UNIQUE (owner_id, idempotency_key),
	CONSTRAINT ck_jobs_state CHECK (state in ('queued', 'running', 'done', 'failed', 'cancelled')),
	CONSTRAINT ck_jobs_release CHECK ((state = 'done') = (model is not null) and (state = 'done') = (receipt is not null)),
	CONSTRAINT ck_jobs_lost CHECK (lost between 0 and 2),
	CONSTRAINT ck_jobs_holder CHECK (holder is null or (state = 'running' and ended is null)),
	CONSTRAINT ck_jobs_ended CHECK ((ended is null) = (due is null) and (ended is null or state = 'running')),
	CONSTRAINT uq_jobs_number UNIQUE (number),
	CONSTRAINT fk_jobs_dataset_id FOREIGN KEY(dataset_id) REFERENCES datasets (id),
	CONSTRAINT fk_jobs_owner_id FOREIGN KEY(owner_id) REFERENCES identities (id)
);
CREATE INDEX ix_jobs_dataset_owner ON jobs (dataset_id, owner_id);
CREATE INDEX ix_jobs_released ON jobs (dataset_id, kind, state, finished_at, number);
CREATE INDEX ix_jobs_method ON jobs (method, number);
CREATE INDEX ix_jobs_dataset ON jobs (dataset_id, number);
CREATE INDEX ix_jobs_kind ON jobs (kind, number);
CREATE INDEX ix_jobs_owner ON jobs (owner_id, number);
CREATE INDEX ix_jobs_open ON jobs (state, number);
CREATE INDEX ix_jobs_queued ON jobs (state, owner_id, dataset_id, number) WHERE state IN ('queued', 'running');
CREATE TABLE deliveries (
	id VARCHAR(64) NOT NULL,
	webhook_id VARCHAR(64) NOT NULL,
	job_id VARCHAR(64) NOT NULL,
	due FLOAT NOT NULL,
	attempts INTEGER NOT NULL,
	CONSTRAINT pk_deliveries PRIMARY KEY (id),
	CONSTRAINT fk_deliveries_webhook_id FOREIGN KEY(webhook_id) REFERENCES webhooks (id),
	CONSTRAINT fk_deliveries_job_id FOREIGN KEY(job_id) REFERENCES jobs (id)
);
CREATE INDEX ix_deliveries_due ON deliveries (due);
CREATE INDEX ix_deliveries_webhook ON deliveries (webhook_id);
