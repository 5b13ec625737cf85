//! What a committed call means for the ledger, and what a broken store does instead of committing.

use duroxide::Event;
use duroxide::providers::{FetchedTurn, FetchedWork, Provider, ProviderError, ProviderErrorKind, WorkItem};
use duroxide_core::columns_of;

use super::FaultyStore;
use crate::simulate::Breakage;
use crate::world::Actor;

impl FaultyStore {
    pub(super) fn fetched_turns(&self, turns: &[FetchedTurn]) {
        for turn in turns {
            let suspect = turn.facts.as_ref().is_some_and(|facts| facts.suspect);
            let kinds: Vec<String> =
                turn.item.messages.iter().map(|message| format!("{:?}", columns_of(message).kind)).collect();
            self.trace(format_args!(
                "fetches {} (#{}{}) {}",
                turn.item.instance,
                turn.attempts,
                if suspect { ", suspect" } else { "" },
                kinds.join(" ")
            ));
            self.taken(turn.item.instance.clone(), suspect);
        }
    }

    pub(super) fn fetched_work(&self, work: &[FetchedWork]) {
        for fetched in work {
            let key = activity_key(&fetched.item);
            self.trace(format_args!(
                "fetches activity {key:?} (#{}{})",
                fetched.attempts,
                if fetched.suspect { ", suspect" } else { "" }
            ));
            if self.world.ledger(|ledger| ledger.completions.contains_key(&key)) {
                self.world
                    .fail(format!("activity {key:?} is run again although its completion was recorded"));
            }
            self.taken(format!("{key:?}"), fetched.suspect);
        }
    }

    fn taken(&self, item: String, suspect: bool) {
        let before = self.world.ledger(|ledger| ledger.takes(item, self.actor));
        if suspect {
            self.world.count("lock expired");
            if before.is_some_and(|before: Actor| before != self.actor) {
                self.world.count("taken over from another node");
            }
        }
    }

    pub(super) fn acked_turn(&self, execution_id: u64, events: &[Event], answer: &Result<(), ProviderError>) {
        let instance = events.first().map_or("?", |event| event.instance_id.as_str());
        let names: Vec<&str> = events.iter().map(event_name).collect();
        match answer {
            Ok(()) => {
                self.trace(format_args!("commits {instance}/{execution_id} {}", names.join(" ")));
                self.world.ledger(|ledger| ledger.append(execution_id, events));
                self.world.committed();
            }
            Err(error) => self.refused("turn", instance, error),
        }
    }

    pub(super) fn acked_work(&self, completion: Option<&WorkItem>, answer: &Result<(), ProviderError>) {
        let Some(completion) = completion else { return };
        let key = activity_key(completion);
        match answer {
            Ok(()) => {
                self.trace(format_args!("completes activity {key:?}"));
                let before =
                    self.world.ledger(|ledger| ledger.completions.insert(key.clone(), completion.clone()));
                if before.is_some() {
                    self.world.fail(format!("activity {key:?} was completed twice"));
                }
                self.world.committed();
            }
            Err(error) => self.refused("activity", &format!("{key:?}"), error),
        }
    }

    fn refused(&self, what: &str, name: &str, error: &ProviderError) {
        self.trace(format_args!("is refused the ack of {what} {name}: {error}"));
        if error.kind() == ProviderErrorKind::LockLost {
            self.world.count("stale ack refused");
        } else {
            self.world.fail(format!("the store refuses the ack of {what} {name}: {error}"));
        }
    }

    /// Carries a message to the store, unless the store is to be broken in just that.
    pub(super) async fn enqueue(
        &self,
        item: WorkItem,
        delay: Option<std::time::Duration>,
    ) -> Result<(), ProviderError> {
        let drops = self.world.breakage == Breakage::DropsAMessage
            && matches!(item, WorkItem::ExternalRaised { .. } | WorkItem::QueueMessage { .. });
        if drops {
            return Ok(());
        }
        let enqueued = self.world.store.enqueue_for_orchestrator(item, delay).await;
        self.world.committed();
        enqueued
    }

    /// What a broken store adds to a turn that it commits.
    pub(super) fn tampered(&self, mut events: Vec<Event>) -> Vec<Event> {
        let completed = events.iter().find(|event| event_name(event) == "ActivityCompleted").cloned();
        if self.world.breakage == Breakage::RecordsACompletionTwice
            && let Some(mut again) = completed
            && let Some(last) = events.last()
            && !last.is_terminal()
        {
            again.event_id = last.event_id + 1;
            again.timestamp_ms = last.timestamp_ms;
            events.push(again);
        }
        events
    }

    /// Another result, sent before the real one, by a broken store.
    pub(super) async fn forge(&self, completion: Option<&WorkItem>) {
        if self.world.breakage != Breakage::DeliversAForgedResultFirst {
            return;
        }
        if let Some(WorkItem::ActivityCompleted { instance, execution_id, id, .. }) = completion {
            let forged = WorkItem::ActivityCompleted {
                instance: instance.clone(),
                execution_id: *execution_id,
                id: *id,
                result: "forged".to_string(),
            };
            if let Err(error) = self.world.store.enqueue_for_orchestrator(forged, None).await {
                self.world.fail(format!("forging failed: {error}"));
            }
        }
    }
}

fn activity_key(item: &WorkItem) -> (String, u64, u64) {
    let columns = columns_of(item);
    (
        columns.instance.to_string(),
        columns.execution_id.unwrap_or_default(),
        columns.event_id.unwrap_or_default(),
    )
}

/// The variant's name.
pub(crate) fn event_name(event: &Event) -> &'static str {
    use duroxide::EventKind as K;
    match &event.kind {
        K::OrchestrationStarted { .. } => "Started",
        K::OrchestrationCompleted { .. } => "Completed",
        K::OrchestrationFailed { .. } => "Failed",
        K::OrchestrationContinuedAsNew { .. } => "ContinuedAsNew",
        K::OrchestrationCancelRequested { .. } => "CancelRequested",
        K::ActivityScheduled { .. } => "ActivityScheduled",
        K::ActivityCompleted { .. } => "ActivityCompleted",
        K::ActivityFailed { .. } => "ActivityFailed",
        K::ActivityCancelRequested { .. } => "ActivityCancelled",
        K::TimerCreated { .. } => "TimerCreated",
        K::TimerFired { .. } => "TimerFired",
        K::TimerCancelled { .. } => "TimerCancelled",
        K::ExternalSubscribed { .. } => "Subscribed",
        K::ExternalEvent { .. } => "Event",
        K::ExternalSubscribedCancelled { .. } => "Unsubscribed",
        K::QueueSubscribed { .. } => "QueueSubscribed",
        K::QueueEventDelivered { .. } => "QueueMessage",
        K::QueueSubscriptionCancelled { .. } => "QueueUnsubscribed",
        K::OrchestrationChained { .. } => "Detached",
        K::SubOrchestrationScheduled { .. } => "ChildScheduled",
        K::SubOrchestrationCompleted { .. } => "ChildCompleted",
        K::SubOrchestrationFailed { .. } => "ChildFailed",
        K::SubOrchestrationCancelRequested { .. } => "ChildCancelled",
        K::VersionRequested { .. } => "VersionRequested",
        K::CustomStatusUpdated { .. } => "CustomStatus",
        K::KeyValueSet { .. } => "KvSet",
        K::KeyValueCleared { .. } => "KvCleared",
        K::KeyValuesCleared => "KvAllCleared",
        K::KeyValuesCarried { .. } => "KvCarried",
        K::RetryPolicyRecorded { .. } => "RetryPolicy",
        K::ActivityDeadlinesRecorded { .. } => "Deadlines",
        K::ActivityBegun => "ActivityBegun",
        K::OrchestrationRedriven { .. } => "Redriven",
        K::OrchestrationRepaired { .. } => "Repaired",
    }
}
