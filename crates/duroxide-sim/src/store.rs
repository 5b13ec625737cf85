//! The store as a process or client reaches it: the public store that fails as told, with the faults of the weather,
//! watched by the ledger.

use std::sync::Arc;

use duroxide::Event;
use duroxide::providers::{
    FetchedTurn, FetchedWork, ProviderError, ProviderErrorKind, RedriveInstance, WorkItem,
};
use duroxide::testing::{Fault, FaultProvider, FaultSource, FrozeWhen, Method, Observer};
use duroxide_core::{ItemKind, columns_of};
use futures_util::FutureExt;

use crate::generate_hostile::REFUSED_ABOVE_BYTES;
use crate::names::event_name;
use crate::simulate::Breakage;
use crate::world::{Actor, Life, World};

/// The store as the process of a node reaches it.
pub(crate) fn of_node(life: &Arc<Life>) -> Arc<FaultProvider> {
    let witness =
        Witness { world: life.world.clone(), actor: Actor::Node(life.node), life: Some(life.clone()) };
    open(witness)
}

/// The store as a client reaches it.
pub(crate) fn of_client(world: &Arc<World>) -> Arc<FaultProvider> {
    open(Witness { world: world.clone(), actor: Actor::Client, life: None })
}

fn open(witness: Witness) -> Arc<FaultProvider> {
    let witness = Arc::new(witness);
    let store = FaultProvider::new(witness.world.store.shared())
        .on_line(witness.world.line(witness.actor))
        .with_source(witness.clone())
        .observed_by(witness.clone());
    for instance in &witness.world.refused {
        store.refuse_rows_above(instance, REFUSED_ABOVE_BYTES);
    }
    Arc::new(store)
}

/// Decides the faults of one actor's calls, and tells the ledger what the store did.
struct Witness {
    world: Arc<World>,
    actor: Actor,
    life: Option<Arc<Life>>,
}

impl Witness {
    fn trace(&self, what: std::fmt::Arguments<'_>) {
        let name = self.life.as_ref().map_or("client", |life| life.name.as_str());
        self.world.trace(name, what);
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

    fn refused(&self, what: &str, name: &str, error: &ProviderError) {
        self.trace(format_args!("is refused the ack of {what} {name}: {error}"));
        if error.kind() == ProviderErrorKind::LockLost {
            self.world.count("stale ack refused");
        } else {
            self.world.fail(format!("the store refuses the ack of {what} {name}: {error}"));
        }
    }

    /// Another result, sent before the real one, by a broken store.
    fn forge(&self, completion: Option<&WorkItem>) {
        let Some(WorkItem::ActivityCompleted { instance, execution_id, id, .. }) = completion else { return };
        let forged = WorkItem::ActivityCompleted {
            instance: instance.clone(),
            execution_id: *execution_id,
            id: *id,
            result: "forged".to_string(),
        };
        let sent = self.world.store.enqueue_for_orchestrator(forged, None).now_or_never();
        if let Err(error) = sent.expect("a store in memory answers at once") {
            self.world.fail(format!("forging failed: {error}"));
        }
    }
}

impl FaultSource for Witness {
    fn faults(&self, method: Method) -> Vec<Fault> {
        let mut faults = self.world.fate(self.actor);
        let breakage = self.world.breakage;
        if breakage == Breakage::AcksWithoutCommitting && method == Method::AckTurn {
            faults.push(Fault::Pretend);
        }
        if breakage == Breakage::DropsAMessage && method == Method::Enqueue && self.actor == Actor::Client {
            faults.push(Fault::Pretend);
        }
        faults
    }
}

impl Observer for Witness {
    fn suffers(&self, method: Method, fault: Fault) {
        if let Some(word) = self.world.weather.word(fault) {
            self.trace(format_args!("{}: {word}", method.name()));
            self.world.count(word);
        }
    }

    fn cut_off(&self, method: Method) {
        self.world.cut_off(method);
    }

    fn froze(&self, method: Method, when: FrozeWhen) {
        let when = match when {
            FrozeWhen::Before => "before",
            FrozeWhen::After => "after",
        };
        if let Some(life) = &self.life {
            life.crash(&format!("{when} {}", method.name()));
        }
    }

    fn fetched_turns(&self, turns: &[FetchedTurn]) {
        for turn in turns {
            let suspect = turn.facts.as_ref().is_some_and(|facts| facts.suspect);
            self.trace(format_args!(
                "fetches {} (#{}{}) {}",
                turn.item.instance,
                turn.attempts,
                if suspect { ", suspect" } else { "" },
                Kinds(&turn.item.messages)
            ));
            self.taken(turn.item.instance.clone(), suspect);
        }
    }

    fn fetched_work(&self, work: &[FetchedWork]) {
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
            let given_back = self.world.ledger(|ledger| ledger.has_result(&key).map(str::to_string));
            if let Some(life) = given_back.filter(|_| !fetched.suspect) {
                self.world.fail(format!("activity {key:?} ran to its end in {life}, which gave it back"));
            }
            self.taken(format!("{key:?}"), fetched.suspect);
        }
    }

    fn acking_turn(&self, events: &mut Vec<Event>) {
        if self.world.breakage != Breakage::RecordsACompletionTwice {
            return;
        }
        let completed = events.iter().find(|event| event_name(event) == "ActivityCompleted").cloned();
        if let Some(mut again) = completed
            && let Some(last) = events.last()
            && !last.is_terminal()
        {
            again.event_id = last.event_id + 1;
            again.timestamp_ms = last.timestamp_ms;
            events.push(again);
        }
    }

    fn acked_turn(&self, execution_id: u64, events: &[Event], answer: &Result<(), ProviderError>) {
        let instance = events.first().map_or("?", |event| event.instance_id.as_str());
        match answer {
            Ok(()) => {
                self.trace(format_args!("commits {instance}/{execution_id} {}", EventNames(events)));
                self.world.ledger(|ledger| ledger.append(execution_id, events));
                if self.world.ledger(|ledger| ledger.outran_cancel(instance, events.last())) {
                    self.world.fail(format!("{instance}: a second turn since its cancel does not end it"));
                }
                self.world.committed(instance);
            }
            Err(error) => self.refused("turn", instance, error),
        }
    }

    fn acking_work(&self, completion: &mut Option<WorkItem>) {
        if self.world.breakage == Breakage::DeliversAForgedResultFirst {
            self.forge(completion.as_ref());
        }
    }

    fn acked_work(&self, completion: Option<&WorkItem>, answer: &Result<(), ProviderError>) {
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
                self.world.committed(&key.0);
            }
            Err(error) => {
                // Its lock had expired: whoever holds the activity now decides over it.
                if let Some(life) = &self.life {
                    self.world.ledger(|ledger| ledger.result_refused(&key, &life.name));
                }
                self.refused("activity", &format!("{key:?}"), error);
            }
        }
    }

    fn enqueued(&self, item: &WorkItem, answer: &Result<(), ProviderError>) {
        if answer.is_err() {
            return;
        }
        if self.world.is_kept(item) {
            self.world.count("event for a failed instance kept");
        }
        if self.world.waits_in_inbox(item) && matches!(item, WorkItem::CancelInstance { .. }) {
            self.world.count("cancel put into an inbox");
            self.world.ledger(|ledger| ledger.cancel_arrived(item.instance()));
        }
        self.world.committed(item.instance());
    }

    fn redriven(&self, instances: &[RedriveInstance], answer: &Result<(), ProviderError>) {
        if answer.is_err() {
            return;
        }
        for one in instances {
            let execution_id = one.failed_execution_id + 1;
            self.trace(format_args!("lets {} go on as execution {execution_id}", one.instance));
            self.world.ledger(|ledger| ledger.goes_on(&one.instance, execution_id));
            self.world.count(if one.events.is_empty() {
                "failed instance began anew"
            } else {
                "failed instance went on"
            });
            for item in &one.messages {
                match columns_of(item).kind {
                    ItemKind::Event => self.world.count("unread event put back"),
                    ItemKind::Completion => self.world.count("unread result put back"),
                    ItemKind::Start
                    | ItemKind::ContinueAsNew
                    | ItemKind::Activity
                    | ItemKind::Note
                    | ItemKind::Timer
                    | ItemKind::Cancel => {}
                }
            }
        }
        for _cancelled_child in instances.iter().skip(1) {
            self.world.count("cancelled child went on with its parent");
        }
        for one in instances {
            self.world.committed(&one.instance);
        }
    }
}

struct Kinds<'a>(&'a [WorkItem]);

impl std::fmt::Display for Kinds<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for message in self.0 {
            write!(f, "{:?} ", columns_of(message).kind)?;
        }
        Ok(())
    }
}

struct EventNames<'a>(&'a [Event]);

impl std::fmt::Display for EventNames<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for event in self.0 {
            write!(f, "{} ", event_name(event))?;
        }
        Ok(())
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
