//! The list of all validations, and the macro that turns it into tests.

/// Calls the macro `$callback` with the list of all validations by family, behind the tokens given.
#[doc(hidden)]
#[macro_export]
macro_rules! __for_each_provider_validation {
    ([$($callback:tt)+] $($before:tt)*) => {
        $($callback)+! {
            $($before)*
            atomicity {
                a_turn_commits_all_its_parts_together,
                a_refused_turn_changes_nothing,
                a_work_item_is_replaced_by_its_completion,
                a_work_item_is_completed_by_completions_only,
                each_queue_refuses_what_belongs_into_the_other,
                a_repeated_ack_is_a_lost_lock_and_changes_nothing,
            }
            dropped_calls {
                a_dropped_deletion_happens_wholly_or_not_at_all,
                a_dropped_commit_happens_wholly_or_not_at_all,
            }
            instance_locking {
                a_locked_instance_is_not_fetched_again,
                instances_are_locked_one_by_one,
                messages_that_arrive_during_a_turn_wait_for_the_next,
                concurrent_fetches_lock_an_instance_once,
                concurrent_turns_of_many_instances_are_each_committed_once,
                an_unknown_token_is_a_lost_lock,
                the_text_of_a_lost_lock_names_the_token,
                a_token_holds_for_one_lock_only,
                an_abandoned_turn_is_ready_at_once,
                the_instance_that_has_been_ready_longest_comes_first,
            }
            lock_expiry {
                an_expired_lock_makes_the_instance_ready_again,
                a_lock_holds_exactly_as_long_as_it_says,
                a_renewed_lock_holds_longer,
                the_holder_of_an_expired_lock_changes_nothing,
                the_former_holder_does_not_disturb_the_new_one,
                the_former_holder_of_a_work_item_completes_nothing,
                a_lock_may_be_as_long_as_one_likes,
            }
            poison_message {
                every_fetch_is_an_attempt,
                the_count_is_the_highest_among_the_messages,
                a_message_that_was_not_fetched_is_not_counted,
                ignoring_an_attempt_takes_back_one,
                ignoring_an_attempt_concerns_the_messages_of_its_fetch,
                every_fetch_of_a_work_item_is_an_attempt,
                the_count_grows_past_every_limit,
                attempts_that_end_in_a_crash_are_counted,
                a_first_turn_can_end_as_poison,
                a_poisoned_instance_leaves_the_others_alone,
            }
            health {
                the_queues_of_an_instance_are_told,
                what_is_overdue_is_counted,
                a_repair_puts_back_what_is_missing,
                a_repair_of_something_else_changes_nothing,
            }
            redrive {
                messages_of_a_poisoned_instance_are_kept,
                messages_of_an_ordinary_end_are_dropped,
                events_sent_after_a_failure_are_kept,
                events_sent_beside_the_failing_commit_are_kept,
                the_answer_to_a_kept_start_stands_in_its_place,
                a_turn_s_event_after_a_failure_is_kept,
                events_sent_after_an_ordinary_end_are_dropped,
                events_kept_while_a_redrive_was_planned_follow,
                a_redriven_instance_runs_again,
                a_redriven_execution_keeps_its_pinned_version,
                a_redrive_of_something_else_changes_nothing,
                an_instance_that_begins_anew_has_no_history,
                kept_messages_are_deleted_with_their_instance,
            }
            capability_filtering {
                fetch_with_filter_none_returns_any_item,
                fetch_with_compatible_filter_returns_item,
                fetch_with_incompatible_filter_skips_item,
                fetch_filter_skips_incompatible_selects_compatible,
                fetch_filter_does_not_lock_skipped_instances,
                fetch_filter_null_pinned_version_always_compatible,
                fetch_filter_boundary_versions,
                pinned_version_stored_via_ack_metadata,
                pinned_version_immutable_across_ack_cycles,
                continue_as_new_execution_gets_own_pinned_version,
                continue_as_new_does_not_inherit_previous_pinned_version,
                sub_orchestration_gets_own_pinned_version,
                filter_with_empty_supported_versions_returns_nothing,
                an_empty_range_matches_the_unpinned_only,
                concurrent_filtered_fetch_no_double_lock,
                fetch_corrupted_history_filtered_vs_unfiltered,
                fetch_deserialization_error_increments_attempt_count,
                fetch_filter_applied_before_history_deserialization,
                fetch_uses_every_range_of_the_filter,
                ack_stores_pinned_version_via_metadata_update,
                provider_updates_pinned_version_when_told,
                the_filter_holds_for_expired_and_abandoned_instances,
                versions_compare_by_their_numbers,
                what_a_filter_leaves_out_is_counted_by_version,
            }
            texts {
                every_text_comes_back_as_it_was,
                every_text_comes_back_from_the_worker_queue,
                a_text_may_be_as_long_as_its_limit,
                a_version_may_have_a_long_text,
                numbers_may_be_as_large_as_they_can,
            }
            handler_routing {
                a_node_gets_only_orchestrations_that_it_has,
                a_version_asked_for_is_needed_exactly,
                a_start_without_a_version_needs_a_policy,
                a_begun_execution_needs_its_version,
                the_next_execution_needs_what_it_asks_for,
                a_cancel_goes_to_any_node,
                an_undecodable_cancel_opens_nothing,
                others_instances_stand_in_nobody_s_way,
                a_waiting_fetch_is_woken_by_its_own,
                routing_narrows_the_filter,
                a_worker_gets_only_activities_that_it_has,
                others_activities_stand_in_nobody_s_way,
                sessions_are_routed_too,
            }
            node_registry {
                a_heartbeat_lists_the_node,
                a_node_that_goes_on_has_joined_once,
                a_node_that_restarts_joins_anew,
                a_node_that_was_silent_joins_anew,
                a_node_that_left_is_listed_as_such,
                a_node_is_forgotten_after_a_day,
                a_node_that_makes_no_sense_is_refused,
            }
            causes {
                the_cause_of_an_instance_is_kept_until_a_turn_is_committed,
                the_cause_of_an_activity_is_kept_until_it_is_deleted,
                an_attempt_without_a_cause_leaves_the_last_one,
                a_long_cause_is_cut,
                what_was_given_back_is_told_with_its_next_attempt,
            }
            sweeping {
                what_no_live_node_can_do_is_named,
                without_a_live_node_everything_is_named,
                only_what_waits_is_counted_and_since_then,
                an_activity_that_backs_off_waits_since_it_was_queued,
                a_cancelled_instance_is_anybody_s,
                nothing_is_swept_while_somebody_may_come,
                what_is_swept_is_locked_and_can_be_ended,
                what_has_not_waited_long_is_left,
            }
            backoff {
                an_abandoned_instance_waits_for_its_delay,
                a_busy_inbox_does_not_use_up_the_attempts,
                a_message_of_the_turn_s_time_waits_for_the_backoff,
                a_cancel_ends_the_backoff,
                a_cancel_during_the_turn_prevents_the_backoff,
                a_backoff_delays_no_other_instance,
                a_committed_turn_clears_the_backoff,
                an_abandoned_work_item_waits_for_its_delay,
                a_delay_of_zero_is_no_delay,
            }
            messages_without_instance {
                events_before_the_start_are_kept_for_it,
                early_events_stay_behind_a_start_that_comes_later,
                a_message_for_an_unknown_instance_blocks_nothing,
                what_nobody_can_want_is_dropped,
                an_early_event_is_no_instance,
                messages_for_a_finished_instance_are_dropped,
                the_end_of_an_instance_empties_its_inbox,
                a_completion_for_nobody_is_acked_and_dropped,
                a_turn_s_message_to_a_later_instance_is_kept,
                early_events_expire,
                early_events_outlive_a_deletion,
            }
            starts_and_collisions {
                a_started_instance_can_be_read_at_once,
                a_first_turn_names_what_was_asked_for,
                the_ack_names_the_version_that_runs,
                a_second_start_changes_nothing,
                a_child_whose_id_is_taken_is_answered,
                a_repeated_start_of_the_same_child_is_not_answered,
                a_collision_without_a_living_parent_blocks_nothing,
                a_delayed_start_is_fetched_later,
                a_turn_starts_other_instances,
            }
            outcomes {
                a_start_tells_whether_it_created_the_instance,
                a_start_is_compared_with_the_first_input,
                a_message_tells_where_it_went,
                an_event_for_a_failed_instance_that_may_go_on_is_kept,
                one_of_many_concurrent_starts_is_told_that_it_started,
                what_the_plain_call_refuses_is_refused,
            }
            continue_as_new {
                an_instance_between_two_executions_is_running,
                the_next_execution_begins_with_an_empty_history,
                messages_that_are_put_back_come_first,
                an_instance_that_continues_does_not_go_before_the_others,
                messages_may_be_put_back_many_times,
                messages_put_back_again_come_before_the_rest,
                timers_of_the_ended_execution_are_dropped,
                the_next_execution_s_start_is_never_left_behind,
                what_waits_in_the_inbox_reaches_the_next_execution,
                state_survives_continue_as_new,
                the_last_execution_ends_the_instance,
            }
            queue_semantics {
                messages_are_admitted_in_the_order_of_arrival,
                equal_messages_are_not_merged,
                a_delayed_message_is_visible_later,
                a_turn_deletes_only_the_messages_that_it_was_given,
                a_fetch_takes_a_bounded_number_of_messages,
                text_comes_back_as_it_was_sent,
            }
            fetched_bytes {
                a_fetch_brings_a_bounded_number_of_bytes,
                a_message_above_the_limit_of_a_fetch_comes_alone,
                an_attempt_concerns_only_the_bytes_that_came,
                the_instances_of_a_fetch_share_its_bytes,
                a_cancel_is_fetched_before_many_bytes,
                large_messages_of_one_turn_follow_in_order,
                a_fetch_brings_a_bounded_number_of_bytes_of_work,
                a_fetch_brings_histories_of_bounded_size,
                a_start_comes_before_large_messages_that_came_early,
            }
            timers {
                a_timer_is_visible_from_its_due_time_on,
                a_timer_of_the_past_is_visible_at_once,
                timers_fire_in_the_order_of_their_due_times,
                a_waiting_timer_delays_nothing,
                a_cancelled_timer_is_deleted,
                the_end_of_an_execution_deletes_its_timers,
                a_timer_may_be_due_at_the_end_of_time,
            }
            work_items {
                work_items_come_in_the_order_of_arrival,
                concurrent_fetches_lock_a_work_item_once,
                an_activity_is_queued_once,
                a_work_item_may_end_without_a_completion,
                an_unknown_work_token_is_a_lost_lock,
                lost_work_items_are_named,
                completions_join_the_inbox_in_their_order,
                progress_is_kept_for_the_next_attempt,
                progress_belongs_to_its_work_item,
            }
            cancellation {
                a_turn_deletes_the_activities_that_it_cancels,
                cancelling_what_is_not_queued_is_no_mistake,
                an_activity_scheduled_and_cancelled_in_one_turn_never_runs,
                an_ended_instance_keeps_the_activities_that_it_did_not_cancel,
                a_cancellation_hits_only_what_it_names,
                a_cancel_reaches_the_instance,
                a_cancel_is_fetched_before_a_deep_inbox,
                a_cancel_during_a_turn_is_fetched_before_a_deep_inbox,
                a_turn_cancels_only_its_own_children,
            }
            tags {
                a_plain_worker_gets_what_has_no_tag,
                a_worker_with_tags_gets_only_those,
                a_worker_may_take_tags_and_what_has_none,
                a_worker_for_any_tag_gets_all_in_order,
                a_worker_for_nothing_gets_nothing,
                a_tag_survives_abandons_and_expiry,
                waiting_work_is_counted_by_tag,
                the_age_by_tag_goes_on_while_an_activity_backs_off,
            }
            sessions {
                a_worker_without_sessions_gets_none_of_theirs,
                a_worker_with_sessions_takes_all_in_order,
                a_session_belongs_to_whoever_fetched_first,
                a_session_stays_with_its_owner,
                an_expired_claim_can_be_taken_over,
                an_expired_item_stays_in_its_session,
                renewed_sessions_stay_with_their_owners,
                an_idle_session_is_not_renewed,
                orphaned_sessions_are_removed,
                a_session_item_needs_a_matching_tag,
                a_claim_lasts_as_long_as_the_locks_of_its_items,
                a_session_that_is_given_up_is_free,
                a_fetch_keeps_a_session_from_idling,
                the_limit_counts_sessions_with_an_activity_in_progress,
                an_owner_at_its_limit_goes_on_with_what_is_in_progress,
                an_activity_that_is_let_go_makes_room,
                an_idle_claim_gives_way_when_its_owner_is_at_its_limit,
                a_claim_does_not_give_way_while_its_activity_backs_off,
                a_busy_session_is_passed_over,
            }
            suspects {
                one_fetch_takes_several_instances,
                one_fetch_takes_several_work_items,
                an_expired_lock_makes_a_suspect,
                a_refused_suspect_stays_uncounted,
                a_fetch_returns_no_more_suspects_than_it_asks_for,
                an_expired_lock_is_told_with_its_holder,
                a_forgiven_attempt_does_not_count,
                the_plain_fetch_takes_suspects,
                a_suspect_given_back_unused_is_still_one,
                an_item_given_back_unused_is_no_suspect,
                a_committed_turn_clears_the_suspicion,
                without_the_extension_a_second_attempt_is_a_suspect,
            }
            turn_facts {
                a_fetch_tells_the_facts,
                an_id_started_again_has_another_incarnation,
                only_exactly_the_held_history_is_left_out,
                a_held_history_of_the_previous_execution_is_not_used,
                a_fetch_brings_a_bounded_number_of_events,
            }
            waiting {
                a_fetch_without_patience_returns_at_once,
                a_fetch_returns_nothing_when_its_patience_ends,
                a_patient_fetch_returns_at_once_when_something_is_ready,
                a_message_wakes_a_waiting_fetch,
                many_waiting_fetches_are_all_served,
                commits_wake_those_behind_them,
                an_abandon_wakes_a_waiting_fetch,
                a_due_time_ends_the_wait,
                an_earlier_due_time_is_noticed,
                a_cancel_wakes_a_waiting_fetch,
                the_end_of_a_claim_ends_the_wait,
                room_for_a_session_ends_the_wait,
                a_dropped_fetch_keeps_nothing,
                a_fetch_dropped_halfway_keeps_nothing_for_long,
                a_client_waits_for_the_end,
                a_client_waits_for_a_change,
                a_client_s_patience_ends,
            }
            undecodable {
                an_undecodable_history_is_delivered_as_such,
                an_undecodable_history_backs_off_like_any_other,
                an_undecodable_instance_can_be_ended,
                the_facts_of_an_undecodable_instance_come_from_columns,
                reading_an_undecodable_history_is_an_error,
                an_undecodable_instance_blocks_no_other,
                an_undecodable_event_is_set_aside,
                an_inbox_of_nothing_but_undecodable_events_is_passed_over,
                an_expired_turn_of_nothing_but_undecodable_events_is_passed_over,
                an_undecodable_start_is_delivered_as_such,
                an_undecodable_completion_is_delivered_as_such,
                an_undecodable_work_item_fails_its_activity,
                an_undecodable_work_item_of_nobody_is_passed_over,
                an_undecodable_suspect_hides_no_other,
            }
            state_of_instances {
                the_custom_status_counts_its_versions,
                kv_changes_apply_in_their_order,
                a_turn_gets_the_kv_store,
                state_can_be_read_after_the_end,
                the_status_follows_the_instance,
                the_last_events_come_back_alone_and_in_order,
                histories_come_back_whole_and_in_order,
                events_can_be_appended_without_a_lock,
                stats_tell_the_size_of_an_instance,
                stats_count_messages_until_they_are_read,
            }
            shown_state {
                the_version_of_the_custom_status_counts_over_executions,
                a_custom_status_is_told_to_who_has_not_seen_it,
                removing_and_setting_values_keeps_its_order,
                all_values_are_read_at_once,
                a_turn_that_is_not_committed_shows_nothing,
                what_is_shown_stays_until_the_deletion,
            }
            management {
                instances_are_listed_latest_first,
                times_are_really_set,
                unknown_ids_are_not_found,
                system_metrics_count_everything,
                system_metrics_follow_every_change,
                queue_depths_count_what_waits,
                trees_are_listed_parents_first,
                each_execution_has_its_own_history,
            }
            deletion {
                a_deleted_instance_is_gone_with_all_it_had,
                a_running_instance_is_only_deleted_by_force,
                a_deletion_takes_the_locks_away,
                a_tree_is_deleted_from_its_root,
                a_deletion_of_several_is_all_or_nothing,
                finished_roots_are_deleted_in_bulk,
                a_bulk_deletion_keeps_its_limit,
                those_that_ended_first_are_deleted_first,
                bulk_calls_never_remove_an_instance_between_two_executions,
                the_current_execution_is_never_pruned,
                pruning_keeps_what_it_is_told_to_keep,
                executions_are_pruned_in_bulk,
            }
            paging {
                pages_follow_each_other_latest_first,
                a_page_tells_what_the_other_calls_tell,
                every_condition_of_a_query_holds,
                ids_with_a_prefix_come_in_their_order,
                a_listing_goes_on_after_what_it_listed_is_gone,
                a_cursor_that_leads_nowhere_is_refused,
                instances_to_prune_are_found,
                the_time_of_the_store_is_that_of_its_rows,
            }
            bulk {
                a_turn_appends_fifty_thousand_events,
                a_turn_schedules_and_cancels_fifty_thousand_activities,
                a_turn_sends_fifty_thousand_messages,
                a_turn_starts_many_instances_and_one_call_deletes_them,
                a_root_is_deleted_with_two_thousand_children,
            }
        }
    };
}

/// Runs every validation on the stores that a [`ProviderFactory`](crate::provider_validation::ProviderFactory)
/// makes. The expression is evaluated once for each test.
#[macro_export]
macro_rules! provider_validation_tests {
    ($factory:expr) => {
        $crate::__for_each_provider_validation! { [$crate::__provider_validation_family] ($factory) }
    };
}

/// One module for each family, one test for each validation.
#[doc(hidden)]
#[macro_export]
macro_rules! __provider_validation_family {
    ($factory:tt $($family:ident $validations:tt)*) => {
        $( $crate::__provider_validation_module! { $factory $family $validations } )*
    };
}

/// The tests of one family.
#[doc(hidden)]
#[macro_export]
macro_rules! __provider_validation_module {
    (($factory:expr) $family:ident { $($validation:ident,)* }) => {
        mod $family {
            #[allow(unused_imports, reason = "the factory's expression may need what stands around the macro")]
            use super::*;
            $(
                #[tokio::test]
                async fn $validation() {
                    let factory = $factory;
                    $crate::provider_validation::$family::$validation(&factory).await;
                }
            )*
        }
    };
}

#[cfg(test)]
mod tests {
    /// The names in the list, by family.
    macro_rules! names {
        ($($family:ident { $($validation:ident,)* })*) => {
            &[$((stringify!($family), &[$(stringify!($validation)),*] as &[&str])),*]
        };
    }

    /// A validation that is written but not listed would never run.
    #[test]
    fn every_validation_is_listed() {
        let listed: &[(&str, &[&str])] = __for_each_provider_validation! { [names] };
        let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/src/provider_validation");
        for (family, validations) in listed {
            let source = std::fs::read_to_string(format!("{sources}/{family}.rs")).unwrap();
            let written =
                source.lines().filter_map(|line| line.strip_prefix("pub async fn ")?.split('(').next());
            assert_eq!(written.collect::<Vec<_>>(), *validations, "{family}");
        }
        // Besides the families: mod, factory, fixture, forwarding and this list.
        let files = std::fs::read_dir(sources).unwrap().count();
        assert_eq!(files, listed.len() + 5, "a family is not listed");
    }
}
