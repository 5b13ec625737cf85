//! Looking at what really reaches the store.

use super::{Fault, Method};
use crate::Event;
use crate::providers::{FetchedTurn, FetchedWork, ProviderError, RedriveInstance, WorkItem};

/// Hears of every call at the store's side of the faults: what the store did, not what the caller was told.
///
/// Called without waiting, between the store's answer and what becomes of that answer.
pub trait Observer: Send + Sync {
    /// A call goes wrong: this fault has its effect now.
    fn suffers(&self, method: Method, fault: Fault) {
        let _ = (method, fault);
    }

    /// A call finds the line cut.
    fn cut_off(&self, method: Method) {
        let _ = method;
    }

    /// The process stops at this call.
    fn froze(&self, method: Method, when: FrozeWhen) {
        let _ = (method, when);
    }

    /// The store gave these instances out.
    fn fetched_turns(&self, turns: &[FetchedTurn]) {
        let _ = turns;
    }

    /// The store gave these activities out.
    fn fetched_work(&self, work: &[FetchedWork]) {
        let _ = work;
    }

    /// A turn is about to be committed. What is changed here is what the store gets.
    fn acking_turn(&self, events: &mut Vec<Event>) {
        let _ = events;
    }

    /// A turn with these events is about to send these messages. What is changed here is what the store gets.
    fn sending(&self, events: &[Event], messages: &mut Vec<WorkItem>) {
        let (_, _) = (events, messages);
    }

    /// The store's answer to the commit of a turn.
    fn acked_turn(&self, execution_id: u64, events: &[Event], answer: &Result<(), ProviderError>) {
        let (_, _, _) = (execution_id, events, answer);
    }

    /// An activity's result is about to be committed. What is changed here is what the store gets.
    fn acking_work(&self, completion: &mut Option<WorkItem>) {
        let _ = completion;
    }

    /// The store's answer to the commit of an activity's result.
    fn acked_work(&self, completion: Option<&WorkItem>, answer: &Result<(), ProviderError>) {
        let (_, _) = (completion, answer);
    }

    /// The store's answer to a message.
    fn enqueued(&self, item: &WorkItem, answer: &Result<(), ProviderError>) {
        let (_, _) = (item, answer);
    }

    /// The store's answer to a redrive.
    fn redriven(&self, instances: &[RedriveInstance], answer: &Result<(), ProviderError>) {
        let (_, _) = (instances, answer);
    }
}

/// Where a process stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrozeWhen {
    /// Before the call was carried out.
    Before,
    /// After it, before the answer.
    After,
}

/// Hears nothing.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Nobody;

impl Observer for Nobody {}
