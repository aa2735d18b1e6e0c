"""The tables, in SQLAlchemy Core. Documents are canonical JSON; times are UTC in ISO 8601."""

import sqlalchemy as sa

metadata = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

# Needed on PostgreSQL alone, where two submissions may be open at once (app.persistence.dialect.next_job_number).
JOB_NUMBERS = sa.Sequence("jobs_number", metadata=metadata)

# One row: the service that owns this database, as in the home's file `identity`; and whether the service has published
# heads of its ledgers in a file (app.ledger.epoch).
service = sa.Table(
    "service",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("has_epoch", sa.Boolean, server_default=sa.false(), nullable=False),
)

# People and programs. A name is never given to another identity, even after its tokens have expired.
identities = sa.Table(
    "identities",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("name", sa.String(200), nullable=False, unique=True),
    sa.Column("role", sa.String(16), nullable=False),
    sa.Column("created_at", sa.String(40), nullable=False),
    sa.CheckConstraint("role in ('steward', 'analyst', 'auditor')", name="role"),
)

# Identities authenticated by a sign-on provider: the issuer and its subject. They have no tokens.
subjects = sa.Table(
    "subjects",
    metadata,
    sa.Column("issuer", sa.String(1000), primary_key=True),
    sa.Column("subject", sa.String(200), primary_key=True),
    sa.Column("identity_id", sa.ForeignKey("identities.id"), nullable=False, unique=True),
)

# `scopes` are words of purse.wire.tokens.Scope; null allows everything that the role allows.
tokens = sa.Table(
    "tokens",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("identity_id", sa.ForeignKey("identities.id"), nullable=False),
    sa.Column("sha256", sa.String(64), nullable=False, unique=True),
    sa.Column("scopes", sa.String(200)),
    sa.Column("created_at", sa.String(40), nullable=False),
    sa.Column("expires_at", sa.String(40)),
    sa.Column("revoked_at", sa.String(40)),
)

# A ledger has the id of the dataset that opened it; other datasets of its family join it. `state` is its current state
# (accounting.records.ledger.LedgerState) as JSON: the cached sum of its entries.
ledgers = sa.Table(
    "ledgers",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("family", sa.String(200), unique=True),
    sa.Column("state", sa.Text, nullable=False),
)

_NOT_WITHDRAWN = sa.text("data != 'withdrawn'")

# `holdout_of` is the dataset that a holdout set was split from (docs/decisions/0032). `data` states whether the values
# are stored here, were never sent here, or are deleted. The name of a withdrawn dataset may be used again.
datasets = sa.Table(
    "datasets",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("ledger_id", sa.ForeignKey("ledgers.id"), nullable=False),
    sa.Column("name", sa.String(200), nullable=False),
    sa.Column("rows", sa.BigInteger, nullable=False),
    sa.Column("spec", sa.Text, nullable=False),
    sa.Column("content_sha256", sa.String(64), nullable=False),
    sa.Column("folder", sa.String(200), nullable=False),
    sa.Column("data", sa.String(16), nullable=False),
    sa.Column("created_at", sa.String(40), nullable=False),
    sa.Column("holdout_of", sa.String(64)),
    sa.CheckConstraint("data in ('stored', 'elsewhere', 'deleted', 'withdrawn')", name="data"),
    sa.Index("ix_datasets_name", "name", unique=True, sqlite_where=_NOT_WITHDRAWN, postgresql_where=_NOT_WITHDRAWN),
    sa.Index("ix_datasets_content", "content_sha256"),
    sa.Index("ix_datasets_ledger", "ledger_id"),
    sa.Index("ix_datasets_holdout", "holdout_of"),
    sa.Index("ix_datasets_created", "created_at", "id"),
)

# An analyst without a grant cannot see that a dataset exists.
grants = sa.Table(
    "grants",
    metadata,
    sa.Column("dataset_id", sa.ForeignKey("datasets.id"), primary_key=True),
    sa.Column("identity_id", sa.ForeignKey("identities.id"), primary_key=True),
    sa.Column("granted_by", sa.String(200), nullable=False),
    sa.Column("granted_at", sa.String(40), nullable=False),
    sa.Index("ix_grants_identity", "identity_id", "dataset_id"),
)

# The most that one analyst may spend on a ledger: a share of its filter, or an (epsilon, delta).
allotments = sa.Table(
    "allotments",
    metadata,
    sa.Column("ledger_id", sa.ForeignKey("ledgers.id"), primary_key=True),
    sa.Column("identity_id", sa.ForeignKey("identities.id"), primary_key=True),
    sa.Column("mode", sa.String(16), nullable=False),
    sa.Column("share", sa.Float),
    sa.Column("epsilon", sa.Float),
    sa.Column("delta", sa.Float),
    sa.Column("set_by", sa.String(200), nullable=False),
    sa.Column("set_at", sa.String(40), nullable=False),
    sa.CheckConstraint("mode in ('reserved', 'shared')", name="mode"),
    sa.CheckConstraint("(share is null) = (epsilon is not null) and (epsilon is null) = (delta is null)", name="part"),
)

# The checksum of a dataset's file of values, and when the file was first found to differ from it.
stored_values = sa.Table(
    "stored_values",
    metadata,
    sa.Column("dataset_id", sa.ForeignKey("datasets.id"), primary_key=True),
    sa.Column("sha256", sa.String(64), nullable=False),
    sa.Column("damaged_at", sa.String(40)),
)

# Rows of a public file, vouched for by a steward, never rows of a dataset; `packed` as in `app.sources.twins.Sample`.
samples = sa.Table(
    "samples",
    metadata,
    sa.Column("dataset_id", sa.ForeignKey("datasets.id"), primary_key=True),
    sa.Column("rows", sa.BigInteger, nullable=False),
    sa.Column("packed", sa.Text, nullable=False),
    sa.Column("published", sa.String(200), nullable=False),
    sa.Column("attached_by", sa.String(200), nullable=False),
    sa.Column("attached_at", sa.String(40), nullable=False),
)

ledger_entries = sa.Table(
    "ledger_entries",
    metadata,
    sa.Column("ledger_id", sa.ForeignKey("ledgers.id"), primary_key=True),
    sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("previous_hash", sa.String(64), nullable=False),
    sa.Column("hash", sa.String(64), nullable=False),
)

# An index of the few entries that set a budget.
PROMISES = sa.literal_column("kind").in_([sa.literal_column("'opened'"), sa.literal_column("'promised'")])
_ENTRY = (ledger_entries.c.ledger_id, ledger_entries.c.sequence)
sa.Index("ix_ledger_entries_promises", *_ENTRY, sqlite_where=PROMISES, postgresql_where=PROMISES)

# An index of the charges from outside.
EXTERNAL = sa.literal_column("kind") == sa.literal_column("'external'")
sa.Index("ix_ledger_entries_external", *_ENTRY, sqlite_where=EXTERNAL, postgresql_where=EXTERNAL)

# An index of the ends of sessions.
SETTLED = sa.literal_column("kind") == sa.literal_column("'settled'")
sa.Index("ix_ledger_entries_settled", *_ENTRY, sqlite_where=SETTLED, postgresql_where=SETTLED)

# The replay of a ledger up to some entry and the hash of its rows, with an HMAC (app.ledger.checkpoints).
checkpoints = sa.Table(
    "checkpoints",
    metadata,
    sa.Column("ledger_id", sa.ForeignKey("ledgers.id"), primary_key=True),
    sa.Column("document", sa.Text, nullable=False),
    sa.Column("signature", sa.Text, nullable=False),
)

# One row for each run of each dispatcher: the boot of its machine, and its heartbeat counter (app.jobs.leases).
holders = sa.Table(
    "holders",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("boot", sa.String(64), nullable=False),
    sa.Column("beat", sa.BigInteger, nullable=False),
)

# The last turn of each analyst in the queue, as a number that grows with every turn (app.jobs.queue).
turns = sa.Table(
    "turns",
    metadata,
    sa.Column("owner_id", sa.ForeignKey("identities.id"), primary_key=True),
    sa.Column("turn", sa.BigInteger, nullable=False),
)

# `request` is the request as it was sent, for the record; `spec` is what runs (app.sources.spec.JobSpec). A running job
# is in one of three conditions: it has a `holder`; or it lost its holder and waits for another (`lost` counts the
# holders that vanished); or it has `ended`, which is not reported before `due` (app.jobs.grid). `due` is in seconds
# from the submission, which was at `ticks` of `boot`. `receipt` and `model` are set exactly if state = 'done'. `model`
# is the released result of the `kind` of job: a model, a profile or another statistic. `method` is that of the quote.
jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("number", sa.BigInteger, nullable=False, unique=True),
    sa.Column("kind", sa.String(16), nullable=False, server_default="model"),
    sa.Column("dataset_id", sa.ForeignKey("datasets.id"), nullable=False),
    sa.Column("owner_id", sa.ForeignKey("identities.id"), nullable=False),
    sa.Column("analyst", sa.String(200), nullable=False),
    sa.Column("idempotency_key", sa.String(200), nullable=False),
    sa.Column("request_sha256", sa.String(64), nullable=False),
    sa.Column("request", sa.Text, nullable=False),
    sa.Column("quote", sa.Text, nullable=False),
    sa.Column("spec", sa.Text, nullable=False),
    sa.Column("charge", sa.Text, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("lost", sa.Integer, nullable=False),
    sa.Column("holder", sa.String(64)),
    sa.Column("boot", sa.String(64), nullable=False),
    sa.Column("ticks", sa.Float, nullable=False),
    sa.Column("due", sa.Float),
    sa.Column("ended", sa.Text),
    sa.Column("error", sa.String(32)),
    sa.Column("model", sa.Text),
    sa.Column("receipt", sa.Text),
    sa.Column("created_at", sa.String(40), nullable=False),
    sa.Column("started_at", sa.String(40)),
    sa.Column("finished_at", sa.String(40)),
    sa.Column("request_id", sa.String(64)),
    sa.Column("method", sa.String(40)),
    sa.UniqueConstraint("owner_id", "idempotency_key"),
    sa.CheckConstraint("state in ('queued', 'running', 'done', 'failed', 'cancelled')", name="state"),
    sa.CheckConstraint(
        "(state = 'done') = (model is not null) and (state = 'done') = (receipt is not null)", name="release"
    ),
    sa.CheckConstraint("lost between 0 and 2", name="lost"),
    sa.CheckConstraint("holder is null or (state = 'running' and ended is null)", name="holder"),
    sa.CheckConstraint("(ended is null) = (due is null) and (ended is null or state = 'running')", name="ended"),
    sa.Index("ix_jobs_dataset_owner", "dataset_id", "owner_id"),
    sa.Index("ix_jobs_dataset", "dataset_id", "number"),
    sa.Index("ix_jobs_method", "method", "number"),
    sa.Index("ix_jobs_kind", "kind", "number"),
    sa.Index("ix_jobs_owner", "owner_id", "number"),
    sa.Index("ix_jobs_open", "state", "number"),
    sa.Index("ix_jobs_released", "dataset_id", "kind", "state", "finished_at", "number"),
)

# An index of the open jobs, which a claim reads, the queued ones first. The state is among the columns because without
# it neither database skips from one analyst to the next. The index covers two states because PostgreSQL would ignore
# the column in an index of one state.
OPEN = sa.literal_column("state").in_([sa.literal_column("'queued'"), sa.literal_column("'running'")])
QUEUED = sa.and_(sa.literal_column("state") == sa.literal_column("'queued'"), OPEN)
_QUEUE = (jobs.c.state, jobs.c.owner_id, jobs.c.dataset_id, jobs.c.number)
sa.Index("ix_jobs_queued", *_QUEUE, sqlite_where=OPEN, postgresql_where=OPEN)

# Budget that analysts reserve for answers which their own programs compute (app.sessions). `plan` is a list of events
# with counts, and `recorded` the number of answers that were recorded of each. Closing a session refunds what is
# `refundable`: the `unused` answers, all of them if the session is `untouched`, or `nothing`. `reserved` and `charged`
# are the charge and its guarantee (app.sessions.store.Charge). `entry` and `settled` are the numbers of the ledger's
# entries `reserved` and `settled`, from which the receipt follows.
sessions = sa.Table(
    "sessions",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("dataset_id", sa.ForeignKey("datasets.id"), nullable=False),
    sa.Column("owner_id", sa.ForeignKey("identities.id"), nullable=False),
    sa.Column("analyst", sa.String(200), nullable=False),
    sa.Column("title", sa.String(200)),
    sa.Column("idempotency_key", sa.String(200), nullable=False),
    sa.Column("request_sha256", sa.String(64), nullable=False),
    sa.Column("plan", sa.Text, nullable=False),
    sa.Column("recorded", sa.Text, nullable=False),
    sa.Column("refundable", sa.String(16), nullable=False),
    sa.Column("noise_multiplier", sa.Float),
    sa.Column("reserved", sa.Text, nullable=False),
    sa.Column("charged", sa.Text, nullable=False),
    sa.Column("entry", sa.BigInteger, nullable=False),
    sa.Column("settled", sa.BigInteger),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("created_at", sa.String(40), nullable=False),
    sa.Column("expires_at", sa.String(40), nullable=False),
    sa.Column("ended_at", sa.String(40)),
    sa.UniqueConstraint("owner_id", "idempotency_key"),
    sa.CheckConstraint("state in ('open', 'closed', 'expired')", name="state"),
    sa.CheckConstraint("refundable in ('unused', 'untouched', 'nothing')", name="refundable"),
    sa.CheckConstraint("(state = 'open') = (ended_at is null)", name="ended"),
    sa.CheckConstraint("state != 'open' or settled is null", name="settled"),
    sa.Index("ix_sessions_created", "created_at", "id"),
    sa.Index("ix_sessions_owner", "owner_id", "created_at", "id"),
    sa.Index("ix_sessions_dataset", "dataset_id", "created_at", "id"),
    sa.Index("ix_sessions_open", "state", "owner_id", "expires_at"),
)

# Requests that recorded steps in an open session, by their idempotency keys; `recorded` is what the answer stated.
session_steps = sa.Table(
    "session_steps",
    metadata,
    sa.Column("session_id", sa.ForeignKey("sessions.id"), primary_key=True),
    sa.Column("idempotency_key", sa.String(200), primary_key=True),
    sa.Column("request_sha256", sa.String(64), nullable=False),
    sa.Column("recorded", sa.Text, nullable=False),
)

# Addresses that are notified when a job ends (app.webhooks). `busy_until` is the end of the lease of the server that is
# sending there, in seconds since 1970, or the time when the last server released it.
webhooks = sa.Table(
    "webhooks",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("owner_id", sa.ForeignKey("identities.id"), nullable=False),
    sa.Column("url", sa.String(1000), nullable=False),
    sa.Column("created_at", sa.String(40), nullable=False),
    sa.Column("busy_until", sa.Float, nullable=False),
    sa.Column("delivered_at", sa.String(40)),
    sa.Column("failures", sa.Integer, nullable=False),
    sa.UniqueConstraint("owner_id", "url"),
)

# Notifications still to be sent: written in the transaction in which the job ends, and tried from `due` on.
deliveries = sa.Table(
    "deliveries",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("webhook_id", sa.ForeignKey("webhooks.id"), nullable=False),
    sa.Column("job_id", sa.ForeignKey("jobs.id"), nullable=False),
    sa.Column("due", sa.Float, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Index("ix_deliveries_due", "due"),
    sa.Index("ix_deliveries_webhook", "webhook_id"),
)

# The spending on each ledger by analyst, so that a budget query does not read the jobs.
analyst_spend = sa.Table(
    "analyst_spend",
    metadata,
    sa.Column("ledger_id", sa.ForeignKey("ledgers.id"), primary_key=True),
    sa.Column("owner_id", sa.ForeignKey("identities.id"), primary_key=True),
    sa.Column("charges", sa.Integer, nullable=False),
    sa.Column("spent", sa.Text, nullable=False),
)
