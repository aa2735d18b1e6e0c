"""What may differ by the database, on PostgreSQL: the same tests as elsewhere, and the schema, on a real server."""

import pytest
import sqlalchemy as sa

from app.persistence.schema import NEWEST
from app.persistence.session import Database
from tests.service import test_concurrency as concurrency
from tests.service import test_state_machine as machine
from tests.support.postgres import Cluster
from tests.unit.app import test_migrations as migrations

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("on_postgres")]

test_submissions = concurrency.test_fifty_submissions_at_once_never_overspend
test_the_control = concurrency.test_without_the_lock_they_do_overspend
test_claims = concurrency.test_every_job_is_claimed_once
test_ends = concurrency.test_only_one_of_fifty_ends_is_kept_and_only_one_of_fifty_tellings_is_a_release
test_waking_early = concurrency.test_a_dispatcher_that_wakes_before_the_other_is_done_loses
test_waking_late = concurrency.test_a_dispatcher_that_wakes_after_the_other_is_done_loses
test_the_control_of_the_fence = concurrency.test_without_the_fence_it_would_win
test_kills = machine.test_a_kill_at_any_statement_of_a_step_leaves_all_as_it_was

old = migrations.old
test_no_difference = migrations.test_autogenerate_finds_no_difference
test_at_the_same_time = migrations.test_migrating_again_and_at_the_same_time_changes_nothing
test_rows_are_kept = migrations.test_rows_of_the_first_version_are_kept
test_grants_are_given = migrations.test_who_could_spend_on_a_dataset_still_can
test_identities = migrations.test_no_two_tokens_become_one_identity

_ALL = (
    "select table_name, column_name, data_type, character_maximum_length, is_nullable, column_default "
    "from information_schema.columns where table_schema = 'public'",
    "select conrelid::regclass::text, conname, pg_get_constraintdef(oid) from pg_constraint "
    "where connamespace = 'public'::regnamespace",
    "select indexname, indexdef, null from pg_indexes where schemaname = 'public'",
    "select sequencename, null, null from pg_sequences where schemaname = 'public'",
)


def _schema(database: Database) -> set[tuple[object, ...]]:
    """Columns, constraints, indexes and sequences, in PostgreSQL's own words."""
    with database.read() as connection:
        return {tuple(row) for query in _ALL for row in connection.execute(sa.text(query))}


def test_step_by_step_it_is_what_the_code_names(old: Database, cluster: Cluster) -> None:
    """Each step in a transaction of its own, over rows of the first version; and a new database made at once."""
    for number in range(2, int(NEWEST) + 1):
        migrations._upgrade(old, f"{number:04}")
    new = Database(cluster.database())
    new.migrate()
    assert _schema(old) == _schema(new)
    assert len(_schema(new)) > 100, "there was something to compare"
    new.close()
