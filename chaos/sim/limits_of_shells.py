"""Bounds of processes and of sidecars: what comes to each, or why nothing can.

The simulator runs machines, and none of what is around them: pumps, mailboxes, threads, gRPC. So a
bound there is tried by a test of its own, with fakes and the bound made small. A gate holds both
lists to the sources, and looks whether each test is there.
"""

from __future__ import annotations

from collections.abc import Mapping

REACHED_BY: Mapping[str, str] = {
    "actors.feed.FLOWING_MS": "actors/test_outputs.py::"
    "test_a_merger_that_has_nothing_yet_is_asked_again_at_once_while_its_output_flows",
    "actors.code.CODE_BYTES_MAX": "actors/test_code.py::test_more_than_is_anybodys_code_is_refused",
    "actors.startup.FAILURES_MAX": "actors/test_startup.py::"
    "test_it_is_given_up_at_once_where_all_that_could_answer_fail",
    "actors.door.LOOKS_MAX": "actors/test_door.py::"
    "test_a_root_that_never_answers_is_asked_no_more_than_so_often",
    "actors.host.ASKERS_MAX": "actors/test_bounds.py::"
    "test_subscribers_that_wait_have_threads_of_their_own_and_keep_no_message_waiting",
    "actors.hosts.SPARES_FAILED_MAX": "actors/test_node_threads.py::"
    "test_a_node_that_could_make_no_spare_for_a_while_gets_its_spares_back",
    "actors.hosts.TRIES_MAX": "actors/test_bounds.py::"
    "test_processes_that_do_not_say_who_they_are_are_asked_so_often_and_not_ended",
    "actors.local_keeper.SWEEPS_MAX": "actors/test_bounds.py::"
    "test_a_process_that_cannot_be_killed_is_said_and_not_tried_for_ever",
    "actors.local_nodes.DIR_CHARS_MAX": "actors/test_local_nodes.py::"
    "test_what_cannot_be_started_is_refused",
    "actors.local_nodes.NODES_MAX": "actors/test_local_nodes.py::"
    "test_what_cannot_be_started_is_refused",
    "actors.lull.LULL_MS_MAX": "actors/test_lull.py::"
    "test_a_lull_is_as_long_as_the_pump_is_late_and_bounded",
    "actors.lull.NAP_MS_MAX": "actors/test_lull.py::"
    "test_a_late_pump_that_naps_takes_together_what_comes_meanwhile",
    "actors.mailboxes.ASK_MS": "actors/test_mailboxes.py::"
    "test_a_question_that_is_not_answered_ends_by_itself",
    "actors.mailboxes.BYTES_MAX": "actors/test_mailboxes.py::"
    "test_letters_that_nobody_fetches_are_bounded_and_those_of_the_longest_silent_go_first",
    "actors.mailboxes.LETTERS_MAX": "actors/test_mailboxes.py::"
    "test_a_letter_that_a_full_mailbox_has_no_room_for_takes_the_place_of_the_oldest",
    "actors.mailboxes.MAILBOXES_MAX": "actors/test_mailboxes.py::"
    "test_of_too_many_subscribers_the_one_that_has_not_asked_for_longest_goes",
    "actors.options.SECONDS_MAX": "actors/test_options.py::"
    "test_what_is_wrong_is_said_in_one_sentence_before_anything_starts",
    "actors.pace.GROWTH_MAX": "actors/test_bounds.py::"
    "test_a_frame_is_never_many_times_larger_than_the_largest_that_was_seen",
    "actors.pace.PUSH_MS_MAX": "actors/test_pace.py::"
    "test_a_slow_plan_is_never_long_inside_the_pump_after_short_frames",
    "actors.pace.SEEN_MAX": "actors/test_bounds.py::"
    "test_of_a_pace_the_last_frames_alone_are_remembered",
    "actors.post.BOX_MESSAGES_MAX": "actors/test_bounds.py::"
    "test_what_a_stopped_process_is_sent_beyond_its_box_is_lost_and_counted",
    "actors.post.CALL_BYTES_MAX": "actors/test_post.py::"
    "test_what_gathers_goes_in_several_calls_where_it_is_too_large_for_one",
    "actors.post.CALLS_MAX": "actors/test_bounds.py::"
    "test_so_many_calls_are_under_way_and_what_gathers_behind_them_goes_as_one",
    "actors.post.UNKNOWN_MAX": "actors/test_post.py::"
    "test_no_more_than_so_many_messages_wait_for_the_next_version",
    "actors.pump.BURST_MAX": "actors/test_pump.py::"
    "test_a_full_inbox_keeps_no_timer_waiting_for_longer_than_a_burst",
    "actors.pump.LARGE_BYTES": "actors/test_merger.py::"
    "test_a_large_message_waits_for_small_ones_that_come_behind_it",
    "actors.pump.CALL_S_MAX": "actors/test_pump.py::"
    "test_whoever_asks_a_busy_pump_for_too_long_is_told_whether_it_was_done",
    "actors.reader_registry.JOB_CHARS_MAX": "actors/test_reader_registry.py::"
    "test_names_are_such_that_journals_take_them_and_two_stay_two",
    "actors.reader_registry.READER_CHARS_MAX": "actors/test_reader_registry.py::"
    "test_names_are_such_that_journals_take_them_and_two_stay_two",
    "actors.rejects.REASONS_MAX": "actors/test_rejects.py::"
    "test_of_ever_new_reasons_for_which_rows_are_lost_a_few_are_told_one_by_one",
    "actors.rejects.WAITING_ROWS_MAX": "actors/test_rejects.py::"
    "test_what_the_disk_is_too_slow_for_is_counted",
    "actors.output_retention.ABSENT_MS": "actors/test_output_retention.py::"
    "test_a_merger_that_is_away_for_too_long_is_not_waited_for_and_that_is_said",
    "actors.output_retention.PIECE_BYTES_MIN": "actors/test_output_retention.py::"
    "test_a_small_output_has_small_segments_and_one_without_a_bound_has_large_ones",
    "actors.root.ALARMS_MAX": "actors/test_bounds.py::"
    "test_the_newest_alarms_are_kept_for_people_and_the_log_has_all",
    "actors.reserve.SPARES_PUT_OFF_MAX": "actors/test_bounds.py::"
    "test_spares_are_put_off_while_lives_begin_but_not_for_ever",
    "actors.life_processes.SPAWNERS": "actors/test_node_threads.py::"
    "test_a_node_that_hangs_blocks_no_spawn_elsewhere",
    "actors.root_actor.EARLY_MAX": "actors/test_root_actor.py::"
    "test_what_came_before_it_could_begin_is_heard_then",
    "actors.root_actor.GONE_MAX": "actors/test_root_actor.py::"
    "test_a_root_whose_job_is_removed_ends",
    "actors.whereabouts.CLUSTERS_MAX": "actors/test_whereabouts.py::"
    "test_the_clusters_that_are_looked_at_are_bounded",
    "actors.wire.ALARM_FACTOR": "actors/test_wire.py::"
    "test_what_is_damaged_is_dropped_and_few_of_many_are_told",
    "actors.wire.SLICE_BYTES": "actors/test_post.py::"
    "test_no_argument_of_a_call_is_so_large_that_it_would_go_by_an_object_store",
    "actors.wire.PIECE_BYTES": "actors/test_wire.py::"
    "test_a_frame_beyond_the_size_of_a_piece_arrives_whole",
    "sidecar.server.access.SECRET_CHARS_MAX": "sidecar/test_hidden_bounds.py::"
    "test_a_token_that_is_too_long_is_refused_and_stands_for_none_that_begins_like_it",
    "sidecar.server.access.STREAMS_MAX": "sidecar/server/test_rights.py::"
    "test_a_pattern_fills_no_more_streams_than_it_may",
    "sidecar.server.access.TOKENS_MAX": "sidecar/test_bounds.py::"
    "test_settings_and_sentences_have_an_end",
    "sidecar.server.grpc_server.STRANGERS_MAX": "sidecar/test_hidden_bounds.py::"
    "test_so_many_strangers_are_answered_at_once_and_the_next_one_waits",
    "sidecar.client.connection.PORT_MAX": "sidecar/test_commands.py::"
    "test_an_address_at_which_nobody_can_answer_is_refused_at_once",
    "sidecar.client.connection.SIDECARS_MAX": "sidecar/test_hidden_bounds.py::"
    "test_more_sidecars_than_a_client_talks_to_are_refused",
    "sidecar.server.copies.NAMES_MAX": "sidecar/server/test_rights.py::"
    "test_of_more_names_than_a_stream_remembers_the_oldest_is_forgotten",
    "sidecar.definition.NAME_CHARS_MAX": "sidecar/client/test_producer.py::"
    "test_what_no_sidecar_could_be_asked_is_refused_before_one_is",
    "sidecar.server.directory.DEFINITION_BYTES_MAX": "sidecar/test_hidden_bounds.py::"
    "test_a_definition_that_would_not_be_read_back_is_refused_and_takes_no_name",
    "sidecar.server.directory.TERM_TRIES_MAX": "sidecar/test_hidden_bounds.py::"
    "test_a_term_that_others_always_take_first_is_given_up_with_an_error",
    "sidecar.server.filters.CHARS_MAX": "sidecar/server/test_filters.py::"
    "test_what_is_no_filter_is_refused",
    "sidecar.server.flight_records.RECORDED_BYTES_MAX": "sidecar/server/test_flight_records.py::"
    "test_the_more_streams_there_are_the_less_each_record_keeps",
    "sidecar.server.http.CONNECTIONS_MAX": "sidecar/server/test_http.py::"
    "test_connections_that_do_not_ask_or_read_make_room_for_who_does",
    "sidecar.server.http.REQUEST_BYTES_MAX": "sidecar/server/test_http.py::"
    "test_a_request_that_is_longer_than_any_of_ours_is_closed",
    "sidecar.server.limits.CREDITS": "sidecar/client/test_producer_machine.py::"
    "test_no_more_is_sent_than_there_is_credit_for",
    "sidecar.server.limits.LIMIT_MAX": "sidecar/test_hidden_bounds.py::"
    "test_a_limit_that_is_none_is_refused",
    "sidecar.lives.INCARNATION_MAX": "sidecar/server/test_rights.py::"
    "test_a_producer_that_is_removed_begins_anew_with_any_incarnation",
    "sidecar.msgpack_frames.DECIMAL_CHARS_MAX": "sidecar/test_hidden_bounds.py::"
    "test_a_decimal_of_too_many_characters_is_none",
    "sidecar.client.gathered_rows.GATHER_ROWS": "sidecar/client/test_gathered_rows.py::"
    "test_rows_one_by_one_gather_into_frames",
    "sidecar.client.gathered_rows.ROW_BYTES_MAX": "sidecar/client/test_gathered_rows.py::"
    "test_a_row_that_no_message_takes_is_refused_at_once",
    "sidecar.client.producer_machine.RUN_BYTES_MAX": "sidecar/client/test_producer_machine.py::"
    "test_over_a_link_that_lags_frames_go_together_up_to_what_one_message_takes",
    "sidecar.client.producer_machine.UNACKED_ROWS_MAX": "sidecar/client/test_producer_machine.py::"
    "test_what_lives_holds_nothing_back_and_what_is_on_its_way_does",
    "sidecar.server.refusals.SENTENCE_CHARS_MAX": "sidecar/test_bounds.py::"
    "test_settings_and_sentences_have_an_end",
    "sidecar.server.registry.OPENING_MAX": "sidecar/test_hidden_bounds.py::"
    "test_a_few_streams_are_opened_at_once_and_one_that_hangs_keeps_one_place",
    "sidecar.server.settings.FILE_BYTES_MAX": "sidecar/test_bounds.py::"
    "test_settings_and_sentences_have_an_end",
    "sidecar.server.setup.PIECE_BYTES_MIN": "sidecar/test_hidden_bounds.py::"
    "test_segments_of_a_small_retention_have_a_least_size",
    "sidecar.server.stream.ENCODED_MAX": "sidecar/test_bounds.py::"
    "test_what_a_stream_keeps_at_hand_is_bounded_and_the_rest_is_read_again",
    "sidecar.server.tls.FILE_BYTES_MAX": "sidecar/test_hidden_bounds.py::"
    "test_a_certificate_that_is_far_too_large_is_refused_unread",
}
"""By bound, the test that comes to it."""

NO_TEST_CAN: Mapping[str, str] = {
    "actors.running_mergers.BOOK_MS": "a beat: how often something is looked at",
    "actors.running_mergers.CONNECTED_MS": "a beat: how often something is looked at",
    "actors.cluster.OBJECT_STORE_BYTES": "memory that Ray is given: what is beyond it is Ray's",
    "actors.feed.LATER_MS": "a time that never comes: an asker is answered or hears of a death",
    "actors.feed.POLL_MS": "a beat: how often something is looked at",
    "actors.local_nodes.OBJECT_STORE_BYTES": "memory that Ray is given: what is beyond it is Ray's",
    "actors.pump.TICK_MS": "a beat: how often something is looked at",
    "actors.reader_registry.REGISTER_MS": "a beat: how often something is looked at",
    "actors.reader_registry.SWEEP_MS": "a beat: how often something is looked at",
    "actors.replica.FOLLOW_MS": "a beat: how often something is looked at",
    "actors.output_retention.TRIM_MS": "a beat: how often something is looked at",
    "actors.node_watch.NODES_MS": "a beat: how often something is looked at",
    "actors.reserve.SPARES_AGAIN_MS": "a beat: how often something is looked at",
    "actors.reserve.SPARES_MS": "a beat: how often something is looked at",
    "actors.reserve.STANDBY_MS": "a beat: how often something is looked at",
    "actors.root.TERM_MS": "a beat: how often something is looked at",
    "actors.shell.RECORD_MS": "a beat: how often something is looked at",
    "sidecar.client.connection.RECONNECT_MS": "a beat: how often it is tried again",
    "sidecar.client.connection.RECONNECT_MS_MAX": "a beat: how often it is tried again",
    "sidecar.server.directory.TERM_DIGITS": "a form of names; a longer number is read as well",
    "sidecar.frames.SCHEMAS_KEPT": "a memory of readers, which are made again",
    "sidecar.client.merged_consumer.ASK_MS": "a time that never comes: a call that ends says so",
    "sidecar.options.KEEPALIVE_ANSWER_MS": "gRPC's beat: a setting of it",
    "sidecar.options.KEEPALIVE_MS": "gRPC's beat: a setting of it",
    "sidecar.client.producer_machine.TRANSPORT_MS": "a time limit: a call that ends says so",
    "sidecar.server.server.HEADER_BYTES_MAX": "a setting of gRPC, which keeps to it",
    "sidecar.server.server.PINGS_MIN_MS": "a setting of gRPC, which keeps to it",
    "sidecar.server.subscribe_call.BEAT_MS_MAX": "a beat: the longest between two questions",
    "sidecar.server.subscribe_call.LOST_MS": "a beat: how often it is asked again",
    "sidecar.server.stream.TICK_MS": "a beat: how often machines hear the time",
}
"""Named as a bound is, and none at which anybody stands."""
