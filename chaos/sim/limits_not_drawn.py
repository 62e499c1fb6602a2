"""Bounds that no simulation draws, each with what tries it instead, or why nothing has to.

The simulator draws what a job of a few hundred rows can come to (`limits.py`). What else bears the
name of a bound is listed here: a test refuses one that is in neither list, so that a change that
adds a bound says what comes to it.
"""

from __future__ import annotations

from collections.abc import Mapping

TRIED_BY: Mapping[str, str] = {
    "failover.supervisor.assignment.DOUBLINGS_MAX": "failover/merger/test_returning_merger.py::"
    "test_a_merger_that_lives_and_does_not_move_is_unassigned_with_an_alarm_and_tried_again",
    "failover.backoff.FAILURES_MAX": "failover/supervisor/test_placement.py::"
    "test_waits_double_up_to_the_bound_and_begin_anew_after_a_steady_life",
    "failover.supervisor.checkpoint_policy.SPARED_MAX": "failover/supervisor/"
    "test_checkpoint_orders.py::test_who_leads_takes_no_checkpoint_while_another_is_on_its_way_but_not_for_ever",
    "failover.supervisor.divergence.FORGIVEN_MS": "failover/supervisor/test_divergence.py::"
    "test_a_slot_whose_lives_are_all_odd_is_given_up_until_somebody_says_so",
    "failover.supervisor.divergence.SLOTS_MIN": "failover/supervisor/test_divergence.py::"
    "test_slots_below_the_least_are_no_majority",
    "failover.subscriber.handover.WAITING_BYTES_MAX": "actors/test_subscription.py::"
    "test_a_program_that_never_reads_costs_what_may_wait_and_one_answer",
    "failover.subscriber.handover.WAITING_MAX": "actors/test_outputs.py::"
    "test_what_waits_for_a_program_that_does_not_read_is_not_read_either",
    "failover.io.output_reads.READERS_MAX": "failover/io/test_merger_io.py::"
    "test_of_too_many_places_in_an_output_the_one_that_was_used_least_lately_is_let_go",
    "failover.merger.recent_rows.KEPT_READS_MAX": "failover/io/test_merger_io.py::"
    "test_one_place_is_read_once_for_all_who_are_there_until_more_is_appended",
    "failover.merger.inputs.LINKS_MAX": "failover/merger/test_machine.py::"
    "test_more_replicas_than_a_merger_takes_are_refused",
    "failover.merger.openings.GONE_MS": "failover/merger/test_readers.py::"
    "test_who_asks_no_more_is_dropped_whether_it_waits_or_is_read_for",
    "failover.merger.openings.SCANS_MAX": "failover/merger/test_readers.py::"
    "test_a_few_tables_are_read_at_once_and_the_others_in_the_order_they_asked",
    "failover.supervisor.replacement_budget.STRAINED_FACTOR": "failover/supervisor/"
    "test_overload.py::test_a_life_that_hangs_on_strained_machines_waits_for_its_turn_and_no_longer",
    "failover.supervisor.replacement_budget.STRAINED_MAX": "failover/supervisor/test_overload.py::"
    "test_a_life_that_hangs_on_strained_machines_waits_for_its_turn_and_no_longer",
    "failover.supervisor.overload.ALARMS_APART_MS": "failover/supervisor/test_overload.py::"
    "test_people_are_told_that_the_machines_are_overloaded_with_figures_and_not_all_the_time",
    "failover.supervisor.overload.TOGETHER_MIN": "failover/supervisor/test_overload.py::"
    "test_of_one_life_that_is_late_nothing_follows_and_of_nearly_all_it_does",
    "failover.supervisor.failure_detector.LAG_FACTOR": "failover/supervisor/test_overload.py::"
    "test_a_life_whose_steps_are_long_may_take_long_for_one_and_no_longer",
    "failover.recorder.folder.FOLDER_BYTES_MAX": "failover/recorder/test_folder.py::"
    "test_of_larger_records_fewer_stay",
    "failover.recorder.folder.RECORDS_MAX": "failover/recorder/test_folder.py::"
    "test_of_more_records_than_a_folder_keeps_the_oldest_go",
    "failover.recorder.image.IMAGE_BYTES_MAX": "failover/recorder/test_recorder.py::"
    "test_a_machine_that_is_too_large_has_events_alone_until_it_is_small_again",
    "failover.recorder.record.REASON_CHARS_MAX": "failover/recorder/test_record.py::"
    "test_of_a_long_reason_the_beginning_is_kept",
    "failover.recorder.record.RECORD_BYTES_MAX": "failover/recorder/test_record.py::"
    "test_a_larger_file_than_any_record_is_refused",
    "failover.recorder.budget.BYTES_MAX": "failover/recorder/test_recorder.py::"
    "test_of_large_frames_as_many_are_held_as_there_is_room_for",
    "failover.recorder.budget.SHARE_FACTOR": "failover/recorder/test_budget.py::"
    "test_images_take_no_more_than_their_share_of_the_time",
    "failover.recorder.flight_record.ALARMS_APART_MS": "failover/recorder/test_flight_record.py::"
    "test_an_alarm_writes_it_and_others_soon_after_do_not",
    "failover.recorder.recorder.EVENTS_MAX": "failover/recorder/test_recorder.py::"
    "test_the_last_events_are_there_and_those_back_to_an_image_before_them",
    "failover.recorder.recorder.EVENT_BYTES_MAX": "failover/recorder/test_recorder.py::"
    "test_behind_an_event_that_is_too_large_the_record_begins_anew",
    "failover.recorder.recorder.HEARD_BYTES_MAX": "actors/test_flight_record.py::"
    "test_of_a_large_call_the_messages_themselves_are_held",
    "failover.recorder.recorder.IMAGE_EVERY": "failover/recorder/test_recorder.py::"
    "test_the_last_events_are_there_and_those_back_to_an_image_before_them",
    "failover.replica.output_sender.KEPT_ROWS_MAX": "failover/replica/test_output_sender.py::"
    "test_a_link_that_still_gets_its_tail_keeps_its_place_until_too_much_waits_behind_it",
    "failover.replica.snapshots.ASKED_MAX": "failover/replica/test_snapshots.py::"
    "test_so_many_may_wait_for_a_snapshot_and_who_asks_beyond_that_tries_its_next_origin",
    "failover.statuses.SAMPLES_MAX": "failover/merger/test_tallies.py::"
    "test_samples_and_their_texts_are_bounded",
    "failover.statuses.TEXT_CHARS_MAX": "failover/merger/test_tallies.py::"
    "test_samples_and_their_texts_are_bounded",
    "failover.subscriber.tokens.CHARS_MAX": "failover/subscriber/test_tokens.py::"
    "test_what_is_no_token_is_refused_with_what_to_do",
    "journal.batch.RECORD_ROWS": "journal/test_bounds.py::"
    "test_a_batch_writes_its_records_when_they_have_rows_enough",
    "journal.disk.WRITTEN_OPEN_MAX": "journal/test_bounds.py::"
    "test_files_beyond_the_bound_are_closed_and_opened_again",
    "journal.epoch.LOOKED_AT_MAX": "journal/test_bounds.py::"
    "test_a_writer_is_told_from_the_claims_that_are_looked_at",
    "journal.headroom.EVERY_MS": "journal/test_headroom.py::"
    "test_a_writer_that_fills_it_at_once_waits_until_there_is_more",
    "journal.head.QUERIES_MAX": "journal/test_bounds.py::test_a_journal_remembers_so_many_queries",
    "journal.partition.KEY_COLUMNS_MAX": "journal/test_partition.py::"
    "test_a_key_that_cannot_be_is_refused",
    "journal.partition.PARTITIONS_MAX": "journal/test_partition.py::"
    "test_a_count_out_of_bounds_is_refused",
    "failover.merger.openings.PART_BYTES_MAX": "failover/merger/test_readers.py::"
    "test_a_table_of_wide_rows_is_handed_out_in_parts_of_so_many_bytes",
    "journal.plausible.DOUBTED_MAX": "journal/test_plausible.py::"
    "test_of_more_runs_than_are_kept_those_with_the_most_rows_stay",
    "journal.plausible.WITNESSES_MAX": "journal/test_plausible.py::"
    "test_the_widest_gap_asks_for_so_many_witnesses_and_no_more",
    "journal.reasons.AHEAD_FEW": "journal/test_reasons.py::"
    "test_where_most_rows_are_ahead_it_is_said_how_rare_ones_are_taken",
    "journal.reasons.COUNTED_ROWS_MAX": "journal/test_reasons.py::"
    "test_so_many_rows_are_counted_and_it_says_of_how_many",
    "journal.reasons.KINDS_MAX": "journal/test_reasons.py::"
    "test_the_most_frequent_kinds_are_told_apart_and_the_others_are_one",
    "journal.reasons.KIND_CHARS_MAX": "journal/test_reasons.py::test_a_long_reason_is_cut",
    "journal.rejects.ALARM_FACTOR": "actors/test_rejects.py::"
    "test_the_first_row_is_told_the_tenth_and_the_hundredth",
    "journal.rejects.FILE_BYTES_MAX": "actors/test_rejects.py::"
    "test_a_full_file_takes_no_more_and_that_is_said_once",
    "journal.rejects.LINE_CHARS_MAX": "journal/test_bounds.py::"
    "test_a_long_row_is_cut_in_the_file_of_rejected_rows",
    "journal.room.CHECK_BYTES": "journal/test_full_disk.py::"
    "test_a_full_disk_is_said_leaves_all_whole_and_writing_goes_on_once_there_is_room",
    "journal.room.FREE_BYTES_MIN": "journal/test_full_disk.py::"
    "test_a_full_disk_is_said_leaves_all_whole_and_writing_goes_on_once_there_is_room",
    "journal.segment.SOUGHT_BYTES": "journal/test_bounds.py::"
    "test_a_record_behind_damage_is_found_wherever_a_search_is_cut",
    "journal.verify.REJECT_FINDINGS_MAX": "journal/test_verify.py::"
    "test_a_damaged_file_of_rejected_rows_has_so_many_findings_and_no_more",
    "journal.xxh64.BLOCK_ROWS": "journal/test_partition.py::"
    "test_every_length_hashes_right_wherever_blocks_end",
    "merge.divergence.NEWEST_MAX": "merge/test_odd_one.py::"
    "test_the_newest_are_kept_as_well_as_the_first",
    "merge.divergence.SAMPLES_MAX": "merge/test_lmerge.py::test_samples_are_bounded",
    "merge.in_order.HELD_ROWS_MAX": "merge/test_lmerge.py::test_how_much_is_held_back_is_bounded",
    "merge.membership.INPUTS_MAX": "merge/test_script.py::"
    "test_more_inputs_or_text_than_there_may_be_are_refused",
}
"""By bound, the test that comes to it."""

REFUSES: Mapping[str, str] = {
    "failover.replica.checkpoint.SOURCES_MAX": "in the head of a checkpoint",
    "failover.replica.checkpoint.TABLES_MAX": "in the head of a checkpoint",
    "failover.replica.checkpoint.TABLE_ROWS_MAX": "in the head of a checkpoint",
    "failover.replica.checkpoint.TAIL_FRAMES_MAX": "in the head of a checkpoint",
    "failover.job.desired.MERGERS_MAX": "of what people desire",
    "failover.job.desired.PLANS_MAX": "of what people desire",
    "failover.job.desired.REPLICAS_MAX": "of what people desire",
    "failover.job.desired.SHARDS_MAX": "of what people desire",
    "failover.job.files.SOURCES_MAX": "of a job that is made",
    "failover.job.files.TERM_MAX": "in a job's files",
    "failover.job.settings.CODE_DEPTH_MAX": "of a job that is made",
    "failover.job.settings.SPARES_MAX": "of a job that is made",
    "failover.job.whole_file.NAME_CHARS_MAX": "of a name",
    "journal.disk.HOLDER_BYTES_MAX": "of a file that says who has locked a directory",
    "journal.epoch.EPOCH_MAX": "of a journal's 2^32nd writer",
    "journal.epoch.MARKER_BYTES_MAX": "of a file that says who writes",
    "journal.head.BASES_MAX": "in a commit",
    "journal.head.NUMBER_MAX": "in a commit",
    "journal.plausible.TIME_MAX": "of a row's time",
    "journal.readers.FILE_BYTES_MAX": "of a reader's file",
    "failover.timing.HEARTBEATS_MIN": "waits that make no sense",
    "failover.timing.MS_MAX": "waits that make no sense",
}
"""What is beyond one of these is refused where it is read or asked for, and nothing waits there:
tests of bad input try it."""

NOTHING_WAITS: Mapping[str, str] = {
    "failover.fold.FOLD_FACTOR": "a share, beside FOLD_ROWS_MIN",
    "failover.recorder.image.KINDS_KEPT": "a memory of classes, which are looked at again",
    "failover.replica.tail.FOLD_FACTOR": "a share, beside FOLD_ROWS_MIN",
    "journal.disk.ENTERED_MAX": "a memory: what it has forgotten is synced again",
    "journal.epoch.LOOKS_MAX": "looks at a file that is being made: then it is taken as it is",
    "journal.epoch.NAMES_KEPT": "a memory of names, which are made again",
    "journal.layout.LAYOUTS_KEPT": "a memory of layouts, which are read again",
    "journal.partition.LONG_DIGITS_MAX": "how many digits a number has",
    "journal.readers.LOOKS_MAX": "looks at a file that is being made: then it is taken as it is",
    "journal.segment.SUMMED_BYTES": "a form of files",
    "journal.segment.TIME_COLUMNS_BYTES": "a form of files",
    "journal.takeover.EPOCH_DIGITS": "a form of names",
    "merge.compatible.CLAIMS_TOLD_MAX": "of a message: the rest is not told",
}
"""Named as a bound is, and none at which anybody stands."""
