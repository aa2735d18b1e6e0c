"""The code behind each threat of docs/threat-model.md, and the tests that fail without it.

`python -m tests.support.review` writes docs/threat-tests.md, with one row for each threat.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
MODEL, PAGE = ROOT / "docs/threat-model.md", ROOT / "docs/threat-tests.md"
_THREAT = re.compile(r"^- \*\*([A-Z]\d+)\. (.+?)\*\*", re.MULTILINE | re.DOTALL)


class Guard(NamedTuple):
    """Files or folders that enforce a protection, and its tests below `tests/`."""

    places: tuple[str, ...]
    tests: tuple[str, ...]


GUARDS = {
    "A1": Guard(
        ("accounting/filter.py", "solvers/data_access/meter.py", "accounting/mechanisms"),
        (
            "property/test_filter_game.py::test_no_adaptive_player_exceeds_the_budget",
            "privacy/test_audit_cases.py::test_the_guarantee_is_kept_and_half_the_noise_is_caught",
            "property/test_solver_contracts.py::test_replacing_one_record_moves_no_value_by_more_than_its_sensitivity",
        ),
    ),
    "A2": Guard(
        ("app/jobs/attempts.py",),
        (
            "service/test_jobs.py::TestFailure::test_an_attempt_that_raised_is_failed_and_charged",
            "service/test_concurrency.py::test_only_one_of_fifty_ends_is_stored_and_only_one_of_fifty_publications_is_a_release",
            "service/test_postgres.py::test_a_job_that_is_cancelled_at_any_statement_of_its_claim_is_refunded_or_runs",
            "service/test_state_machine.py::test_a_kill_at_any_statement_of_a_step_changes_nothing",
        ),
    ),
    "A3": Guard(
        ("app/ledger/store.py", "app/persistence/sqlite.py", "app/persistence/postgres.py"),
        (
            "service/test_concurrency.py::test_fifty_submissions_at_once_never_overspend",
            "service/test_concurrency.py::test_without_the_lock_the_submissions_overspend",
        ),
    ),
    "A4": Guard(
        ("app/wire.py", "accounting/noise/source.py"),
        (
            "service/test_guards.py::test_no_seed_and_no_unknown_field",
            "service/test_openapi.py::test_no_request_names_a_seed",
            "privacy/test_noise.py::test_the_system_source_fits_and_never_repeats",
        ),
    ),
    "A5": Guard(
        ("app/http/body.py", "purse/wire/base.py", "accounting/numbers.py"),
        (
            "service/test_guards.py::test_epsilon_and_delta_of_a_job_and_of_a_budget",
            "service/test_guards.py::test_no_number_anywhere_may_be_not_finite",
            "unit/app/test_wire_body.py::test_a_repeated_key_is_refused_at_any_depth",
        ),
    ),
    "A6": Guard(
        ("app/jobs/grid.py", "app/worker/execute.py", "app/operations/logs.py"),
        (
            "service/test_time.py::test_two_runs_whose_ends_lie_in_the_same_cells_look_the_same",
            "service/test_datasets.py::test_no_later_answer_depends_on_the_values",
            "service/test_files.py::test_only_the_uploader_reads_the_report",
            "service/test_logs.py::test_a_session_leaves_no_value_no_token_and_no_name_in_the_log",
        ),
    ),
    "A7": Guard(
        ("accounting/noise/lattice.py",),
        (
            "privacy/test_last_iterate.py::test_the_low_bits_of_the_last_iterate_do_not_depend_on_the_path",
            "property/test_mechanism_contracts.py::test_answers_are_on_a_lattice_and_have_the_stated_std",
        ),
    ),
    "A8": Guard(
        ("app/datasets/grants.py", "app/jobs/filters.py"),
        (
            "service/test_grants.py::test_without_a_grant_a_dataset_looks_like_an_unknown_one",
            "service/test_grants.py::test_without_a_grant_its_jobs_look_like_unknown_ones",
            "service/test_grants.py::test_the_next_page_of_jobs_shows_nothing_of_other_analysts",
            "service/test_jobs.py::TestWhoSeesWhat::test_an_analyst_sees_own_jobs_only",
        ),
    ),
    "A9": Guard(
        ("app/identity/dependencies.py",),
        (
            "service/test_identity.py::test_wrong_role_is_403_and_right_role_is_let_in",
            "service/test_sign_on.py::test_a_group_has_the_rights_of_its_role",
        ),
    ),
    "A10": Guard(
        ("app/http/rates.py", "app/http/turns.py", "app/jobs/queue.py", "app/calculation/pool.py"),
        (
            "unit/app/test_work.py::test_the_rate_of_a_caller_pays_for_processor_time",
            "unit/app/test_turns.py::test_a_caller_with_one_request_waits_for_one_turn_of_another_only",
            "service/test_calculation.py::test_the_service_answers_while_one_analyst_requests_expensive_prices",
            "service/test_rates.py::test_every_route_refuses_too_many_requests",
            "unit/app/test_queue.py::test_an_analyst_overtakes_a_waiting_one_at_most_once_with_as_many_running",
            "unit/app/test_queue.py::test_queued_jobs_are_limited",
            "service/test_webhooks.py::test_webhooks_take_turns_however_many_messages_wait",
            "service/test_webhooks.py::test_a_name_without_an_address_delays_no_other_message",
        ),
    ),
    "A11": Guard(
        ("app/webhooks/delivery.py",),
        (
            "service/test_webhooks.py::test_addresses_that_are_not_public_are_not_called",
            "service/test_webhooks.py::test_a_name_is_looked_up_once_and_the_checked_address_is_called",
            "service/test_webhooks.py::test_only_the_status_of_an_answer_counts",
            "service/test_webhooks.py::test_an_address_that_may_not_be_is_refused_when_it_is_named",
        ),
    ),
    "A12": Guard(
        ("app/webhooks/store.py", "app/webhooks/courier.py"),
        (
            "service/test_webhooks.py::test_one_message_is_written_when_the_end_becomes_public",
            "service/test_webhooks.py::test_a_message_is_signed_and_contains_only_public_facts",
        ),
    ),
    "A13": Guard(
        ("app/ledger/allotments.py", "accounting/records/allotments.py"),
        (
            "unit/app/test_ledger_store.py::test_the_ledger_itself_refuses_charges_beyond_an_allotment",
            "service/test_allotments.py::TestReserved::test_must_fit_the_budget_with_what_is_spent",
        ),
    ),
    "T1": Guard(
        ("accounting/filter.py", "app/ledger/store.py"),
        (
            "property/test_filter_game.py::test_no_adaptive_player_exceeds_the_budget",
            "service/test_jobs.py::test_a_spent_budget_admits_only_what_remains",
        ),
    ),
    "T2": Guard(
        ("app/identity/store.py", "app/http/rates.py"),
        (
            "service/test_identity.py::TestAnIdentity::test_has_its_tokens_jobs_under_any_of_them",
            "service/test_sign_on.py::TestAPerson::test_keeps_jobs_keys_and_spending",
            "service/test_rates.py::test_tokens_of_one_identity_share_a_bucket",
        ),
    ),
    "T3": Guard(
        ("app/ledger/allotments.py", "app/jobs/release.py"),
        (
            "service/test_shares.py::test_a_receipt_of_a_reserved_part_states_no_share_of_the_whole",
            "service/test_allotments.py::TestReserved::test_other_analysts_do_not_see_it",
        ),
    ),
    "S1": Guard(
        ("app/datasets/families.py", "app/datasets/service.py", "app/stewardship/service.py"),
        (
            "service/test_guards.py::test_the_same_name_and_the_same_file_again",
            "service/test_stewardship.py::test_after_the_first_charge_a_budget_only_grows",
            "service/test_families.py::test_a_second_file_has_no_new_budget",
        ),
    ),
    "S2": Guard(
        ("accounting/records/chain.py", "accounting/records/replay.py"),
        (
            "property/test_ledger_properties.py::test_tampering_with_any_field_of_any_entry_breaks_the_chain",
            "service/test_ledger_routes.py::test_an_exported_ledger_verifies_with_its_receipts",
        ),
    ),
    "S3": Guard(
        ("app/sources/text.py", "app/sources/footer.py", "app/sources/pages.py", "app/datasets/upload.py"),
        (
            "service/test_datasets.py::test_a_small_file_that_would_unfold_too_far_is_refused_and_leaves_nothing",
            "unit/app/test_sources_parquet.py::test_a_footer_that_states_smaller_sizes_than_its_pages_is_refused",
            "service/test_guards.py::test_a_path_in_a_file_name_is_ignored",
            "unit/app/test_sources_parquet.py::test_a_damaged_file_is_unreadable",
        ),
    ),
    "S4": Guard(
        ("app/datasets/samples.py",),
        (
            "service/test_forecasts.py::test_no_answer_says_whether_a_sample_equals_the_data",
            "service/test_forecasts.py::test_no_file_of_the_data_is_opened_and_nothing_is_charged",
        ),
    ),
    "S5": Guard(("app/identity/service.py",), ("service/test_identity.py::test_last_steward_stays",)),
    "S6": Guard(("app/datasets/spool.py",), ("service/test_uploads.py::test_other_stewards_cannot_find_it",)),
    "S7": Guard(
        ("app/datasets/uploads.py", "app/datasets/spool.py"),
        (
            "service/test_uploads.py::test_only_the_next_byte_is_written",
            "service/test_uploads.py::test_one_of_two_writers_at_one_offset_wins",
        ),
    ),
    "S8": Guard(
        ("app/datasets/spool.py", "app/worker/dispatcher.py"),
        ("service/test_uploads.py::test_only_expired_uploads_are_deleted",),
    ),
    "S9": Guard(
        ("app/datasets/spool.py", "app/persistence/files.py"),
        (
            "service/test_uploads.py::test_waiting_uploads_are_limited_by_steward_and_in_total",
            "service/test_uploads.py::test_an_upload_that_would_not_fit_is_refused_at_its_start",
            "service/test_rates.py::test_simultaneous_uploads_are_limited",
            "service/test_disk_full.py::test_an_upload_says_so_and_leaves_nothing",
        ),
    ),
    "U1": Guard(
        ("app/identity/dependencies.py",),
        (
            "service/test_jobs.py::TestWhoSeesWhat::test_an_auditor_sees_lists_and_receipts_only",
            "service/test_identity.py::test_rule_is_in_the_routes_own_dependencies",
        ),
    ),
    "U2": Guard(
        ("app/operations/routes.py",), ("service/test_operations.py::test_a_monitors_token_only_reads_metrics",)
    ),
    "U3": Guard(
        ("app/operations/metrics.py",),
        ("service/test_operations.py::test_metrics_time_requests_prices_and_jobs_but_no_upload",),
    ),
    "B1": Guard(
        ("app/pages/session.py",),
        (
            "service/test_pages.py::test_a_request_of_another_site_changes_nothing",
            "service/test_pages.py::test_a_link_of_another_site_does_not_sign_out",
            "service/test_pages.py::test_a_valid_token_becomes_a_strict_http_only_cookie",
        ),
    ),
    "B2": Guard(
        ("app/pages/session.py",),
        (
            "pages/test_people.py::test_a_person_signs_in_looks_around_and_signs_out",
            "service/test_pages.py::test_no_token_is_in_a_page_or_in_a_log",
            "service/test_pages.py::test_the_cookie_is_nothing_to_the_interface",
        ),
    ),
    "B3": Guard(
        ("app/pages/templates", "app/pages/session.py"),
        (
            "service/test_pages.py::test_a_hostile_name_is_text",
            "service/test_pages.py::test_pages_restrict_the_origins_of_their_content",
        ),
    ),
    "B4": Guard(("app/pages/session.py",), ("service/test_pages.py::test_two_session_cookies_are_refused",)),
    "B5": Guard(
        ("app/pages/api.py",),
        (
            "service/test_pages.py::test_an_analyst_sees_the_same_datasets_as_through_the_api",
            "service/test_pages.py::test_an_upload_in_the_pages_is_that_of_the_api",
            "service/test_pages.py::test_pages_are_limited_as_their_visitor_is",
            "service/test_pages.py::test_a_name_never_becomes_a_step_in_a_path",
            "service/test_pages.py::test_a_form_without_an_answer_is_sent_again_under_its_key",
        ),
    ),
    "B6": Guard(
        ("app/operations/logs.py", "app/http/middleware.py"),
        ("service/test_pages.py::test_how_long_an_upload_took_is_not_logged",),
    ),
    "O1": Guard(
        ("app/ledger/epoch.py", "app/jobs/rollback.py"),
        (
            "service/test_epoch.py::test_an_older_copy_is_refused_with_the_missing_heads",
            "service/test_epoch.py::test_a_copy_that_lacks_recorded_answers_is_refused_and_their_session_expires",
            "service/test_epoch.py::test_an_accepted_rollback_is_in_the_chain_and_ends_what_was_open",
            "service/test_backup.py::test_a_start_detects_charges_after_the_backup_and_needs_an_order",
        ),
    ),
    "O2": Guard(("app/identity/home.py",), ("unit/app/test_home.py::test_another_services_database_is_refused",)),
    "O3": Guard(
        ("app/ledger/audit.py", "app/ledger/checkpoints.py", "app/datasets/values.py"),
        (
            "service/test_checkpoints.py::test_a_checkpoint_that_cannot_be_trusted_is_not_used",
            "service/test_checkpoints.py::test_a_tampered_older_entry_is_found_while_the_server_runs",
            "service/test_audit.py::test_every_change_of_stored_entries_is_detected",
            "service/test_audit.py::TestValues::test_a_job_on_damaged_values_releases_nothing_and_later_jobs_are_refused",
        ),
    ),
    "O4": Guard(
        ("app/ledger/registrations.py",),
        (
            "service/test_registrations.py::test_a_changed_row_of_the_dataset_that_opened_its_ledger_is_refused",
            "service/test_registrations.py::test_a_dataset_that_was_moved_to_another_ledger_is_refused",
            "service/test_checkpoints.py::test_a_tampered_registration_is_found_before_the_start",
        ),
    ),
    "O5": Guard(("app/jobs/attempts.py",), ("service/test_registrations.py::test_a_job_that_is_not_as_charged_fails",)),
    "O6": Guard(
        ("app/jobs/attempts.py",), ("service/test_registrations.py::test_a_job_that_has_ended_is_not_run_again",)
    ),
    "O7": Guard(
        ("app/settings.py",),
        (
            "service/test_sign_on.py::test_settings_that_would_let_anybody_in_stop_the_start",
            "unit/app/test_settings.py::test_scheduler_speaks_mutual_tls_only",
        ),
    ),
    "O8": Guard(
        ("app/settings.py", "app/operations/logs.py"),
        (
            "service/test_identity.py::test_bootstrap_token_leaves_the_environment_before_anything_starts",
            "unit/app/test_settings.py::test_secret_is_not_in_the_settings_text",
            "service/test_postgres.py::test_the_address_of_the_database_is_not_shown",
            "service/test_logs.py::test_a_session_leaves_no_value_no_token_and_no_name_in_the_log",
        ),
    ),
    "W1": Guard(
        ("app/worker/orders.py", "pyproject.toml"),
        (
            "e2e/test_worker_kill.py::test_workers_hold_no_setting_and_no_secret",
            "e2e/test_forked.py::test_a_fork_has_no_setting_and_prints_nothing",
            "e2e/test_machines.py::test_jobs_survive_their_servers_and_orderly_stops_cost_nothing",
        ),
    ),
    "W2": Guard(
        ("app/worker/cluster.py", "app/worker/certificates.py"),
        (
            "e2e/test_worker_kill.py::test_the_channel_is_authenticated",
            "e2e/test_worker_kill.py::test_a_remote_scheduler_with_mutual_tls",
        ),
    ),
    "W3": Guard(
        ("app/jobs/attempts.py",),
        (
            "service/test_concurrency.py::test_a_dispatcher_that_wakes_after_the_second_attempt_ended_loses",
            "service/test_concurrency.py::test_without_the_fence_it_would_win",
            "service/test_jobs.py::TestFailure::test_and_no_third",
        ),
    ),
    "W4": Guard(
        ("app/jobs/release.py", "accounting/plan.py"),
        (
            "service/test_jobs.py::TestFailure::test_an_output_that_is_not_the_plans",
            "unit/app/test_job_spec.py::test_an_output_is_a_list_of_finite_coefficients_or_is_not_released",
        ),
    ),
    "W5": Guard(("app/worker/execute.py",), ("e2e/test_worker_kill.py::test_an_attempt_that_raises_says_one_word",)),
    "N1": Guard(
        ("app/identity/store.py", "app/http/rates.py"),
        (
            "service/test_identity.py::test_no_valid_token_is_401",
            "service/test_identity.py::test_hash_lookup_uses_an_index",
            "service/test_rates.py::test_guesses_of_tokens_are_limited_by_address",
        ),
    ),
    "N2": Guard(
        ("app/identity/dependencies.py", "app/jobs/events.py"),
        (
            "service/test_identity.py::test_a_revoked_token_is_refused_at_once",
            "service/test_http_limits.py::test_streams_end_when_the_token_is_revoked",
            "service/test_sign_on.py::test_a_stream_ends_with_the_sign_on",
        ),
    ),
    "N3": Guard(
        ("app/http/protocol.py", "app/http/guards.py"),
        (
            "service/test_http_limits.py::test_a_head_that_drips_is_not_waited_for",
            "service/test_http_limits.py::test_half_open_connections_are_closed_for_new_ones",
            "service/test_http_limits.py::test_an_answer_that_is_not_read_is_dropped",
        ),
    ),
    "N4": Guard(
        ("app/http/rates.py",),
        (
            "service/test_rates.py::test_all_requests_together_are_bounded_except_probes",
            "unit/app/test_rates.py::test_tables_do_not_grow",
            "unit/app/test_rates.py::test_the_simultaneous_requests_of_one_caller_are_limited",
        ),
    ),
    "N5": Guard(
        ("app/http/protocol.py", "app/http/guards.py"),
        (
            "service/test_http_limits.py::test_a_request_that_is_not_http_gets_a_problem_document",
            "service/test_http_limits.py::test_a_request_with_two_lengths_is_refused_and_the_rest_is_not_read",
            "service/test_operations.py::test_two_headers_of_one_kind_are_refused",
            "service/test_fuzz.py::test_the_interface_behaves_as_its_document_states",
        ),
    ),
    "N6": Guard(
        ("app/http/server.py",), ("service/test_proxy.py::test_forwarded_headers_of_trusted_peers_only_are_used",)
    ),
    "N7": Guard(
        ("app/http/middleware.py",), ("service/test_operations.py::test_answers_are_not_cached_sniffed_or_framed",)
    ),
    "H1": Guard(
        ("app/identity/store.py",),
        (
            "service/test_identity.py::test_token_is_long_shown_once_and_stored_as_a_hash",
            "service/test_sign_on.py::TestAPerson::test_leaves_no_token_on_the_disk",
        ),
    ),
    "H2": Guard(("app/ledger/epoch.py",), ("service/test_epoch.py::test_a_copy_without_a_whole_dataset_is_refused",)),
    "H3": Guard(("app/settings.py",), ("unit/app/test_settings.py::test_home_is_closed_to_others",)),
    "H4": Guard(
        ("app/ledger/keys.py", "accounting/records/receipt.py"),
        (
            "service/test_keys.py::test_a_running_server_loads_a_new_key_and_a_restarted_one_keeps_both",
            "unit/accounting/test_receipt.py::test_the_ledger_must_hold_the_release",
        ),
    ),
    "H5": Guard(
        ("accounting/records/receipt.py", "accounting/records/signing.py"),
        (
            "unit/accounting/test_receipt.py::test_a_key_that_comes_along_is_not_trusted",
            "unit/accounting/test_receipt.py::test_the_algorithm_and_the_header_are_pinned",
            "unit/accounting/test_receipt.py::test_no_field_can_be_changed",
        ),
    ),
    "P1": Guard(
        ("app/identity/sign_on.py",),
        (
            "service/test_sign_on.py::test_an_invalid_token_is_refused_like_any_unknown_one",
            "service/test_sign_on.py::test_only_public_keys_for_signatures_are_accepted",
        ),
    ),
    "P2": Guard(
        ("app/identity/provider.py",),
        ("service/test_sign_on.py::test_a_provider_with_an_invalid_answer_is_unavailable",),
    ),
    "P3": Guard(("app/identity/provider.py",), ("service/test_sign_on.py::test_keys_rotate",)),
    "P4": Guard(
        ("app/identity/provider.py",),
        (
            "service/test_sign_on.py::test_only_the_caller_waits_for_a_provider_that_hangs",
            "service/test_sign_on.py::test_unknown_key_names_cause_one_request_to_the_provider",
            "service/test_sign_on.py::test_keys_stay_valid_for_a_while_without_the_provider",
        ),
    ),
    "P5": Guard(
        ("app/identity/code_flow.py", "app/pages/sign_in.py"),
        (
            "service/test_sign_in.py::test_a_code_is_valid_once_in_the_browser_that_requested_it",
            "service/test_sign_in.py::test_a_token_of_another_attempt_is_refused",
            "service/test_sign_in.py::test_a_token_for_several_audiences_must_be_made_for_this_service",
        ),
    ),
    "P6": Guard(
        ("app/identity/code_flow.py", "app/settings.py"),
        (
            "service/test_sign_in.py::test_a_redirect_that_could_be_read_along_stops_the_start",
            "service/test_sign_in.py::test_tokens_work_without_the_provider",
            "service/test_sign_in.py::test_a_person_returns_signed_in",
        ),
    ),
    "P7": Guard(
        ("app/pages/sign_in.py",),
        (
            "service/test_sign_in.py::test_a_provider_session_is_ended_at_the_provider",
            "service/test_sign_in.py::test_other_sessions_or_providers_without_a_sign_out_page_end_here",
        ),
    ),
    "P8": Guard(
        ("app/identity/code_flow.py",), ("service/test_sign_in.py::test_simultaneous_code_exchanges_are_limited",)
    ),
    "P9": Guard(
        ("app/identity/store.py",),
        (
            "service/test_sign_on.py::TestAPerson::test_has_a_name_that_no_token_joins",
            "service/test_sign_on.py::TestAPerson::test_has_another_identity_at_another_provider",
        ),
    ),
    "C1": Guard(
        ("pyproject.toml", "requirements.lock"),
        (
            "docs/test_dependencies.py::test_lock_pins_every_dependency_with_its_hashes",
            "docs/test_dependencies.py::test_every_dependency_is_explained_at_its_locked_version",
        ),
    ),
    "C2": Guard(
        ("accounting/accountants/guard.py", "accounting/records/recomputation.py"),
        (
            "privacy/test_dp_accounting.py::test_the_trap_behind_the_door",
            "property/test_mechanism_contracts.py::test_accountants_agree_and_less_noise_costs_more",
        ),
    ),
    "C3": Guard(
        ("accounting/noise",),
        ("privacy/test_noise.py::test_noise_fits", "privacy/test_noise.py::test_five_percent_off_is_rejected"),
    ),
    "C4": Guard(
        ("solvers/audit",),
        (
            "privacy/test_audit.py::test_mutant_clipping_off_is_caught",
            "privacy/test_audit.py::test_mutant_one_query_too_many_is_refused_and_caught",
            "privacy/test_audit_cases.py::test_every_method_has_a_case",
        ),
    ),
    "C5": Guard(("app/main.py",), ("service/test_operations.py::test_packages_from_different_folders_do_not_start",)),
    "C6": Guard(("app/worker/cluster.py",), ("e2e/test_worker_kill.py::test_the_channel_is_authenticated",)),
}


def threats() -> dict[str, str]:
    """Return the title of each threat by its number, as docs/threat-model.md states them."""
    titles = _THREAT.findall(MODEL.read_text())
    return {number: " ".join(title.split()).rstrip(".") for number, title in titles}


def page() -> str:
    """Return docs/threat-tests.md."""
    return "\n".join([*_rows(), ""])


def _rows() -> Iterator[str]:
    yield "# Threats and tests"
    yield ""
    yield "The [threat model](threat-model.md) explains each threat. This page lists the code that enforces"
    yield "each protection, and tests that fail without it. `python -m tests.support.review` writes the page."
    yield ""
    yield "| | threat | enforced in | tests |"
    yield "| --- | --- | --- | --- |"
    for number, title in threats().items():
        guard = GUARDS[number]
        places = ", ".join(f"[{place}](../{place})" for place in guard.places)
        tests = ", ".join(f"`tests/{test}`" for test in guard.tests)
        yield f"| {number} | {title} | {places} | {tests} |"
