//! The checks. Each is a function of the store's state and the ledger, and says in words what is wrong.

mod history;
mod outcome;
mod promises;
mod scheduled;

use duroxide::Event;
use duroxide::providers::memory::{ExecutionSnapshot, Snapshot, Stored};
use futures_util::FutureExt;

use crate::generate_long::is_long;
use crate::world::World;

/// What is wrong, one sentence each.
type Findings = Vec<String>;

/// What must hold after every commit.
pub(crate) fn check(world: &World) {
    let snapshot = world.store.snapshot();
    let findings = world.ledger(|ledger| {
        let mut findings = Vec::new();
        history::check(&snapshot, ledger, &mut findings);
        scheduled::check(world, &snapshot, &mut findings);
        promises::check(&snapshot, ledger, &mut findings);
        findings
    });
    for finding in findings {
        world.fail(finding);
    }
}

/// What must hold after every commit, of the instance that it is about.
pub(crate) fn check_instance(world: &World, instance: &str) {
    let findings = world.store.inspect(instance, |inspection| {
        let mut findings = Vec::new();
        let redriven = world.ledger(|ledger| ledger.is_redriven(instance, inspection.current_execution_id));
        history::check_current(instance, inspection, redriven, &mut findings);
        scheduled::check_one(instance, inspection, &mut findings);
        findings
    });
    for finding in findings.unwrap_or_default() {
        world.fail(finding);
    }
}

/// What must hold besides when everything has ended.
pub(crate) fn check_end(world: &World) {
    check(world);
    let snapshot = world.store.snapshot();
    let ended = world.ledger(|ledger| {
        let mut ended = outcome::Ended::default();
        outcome::check(&world.programs, &snapshot, ledger, &mut ended);
        ended
    });
    for what in ended.counts {
        world.count(what);
    }
    for finding in ended.findings {
        world.fail(finding);
    }
}

/// The events that decode. The simulation corrupts none, so those are all.
fn events(execution: &ExecutionSnapshot) -> Vec<&Event> {
    let decoded = execution.events.iter().filter_map(|event| match event {
        Stored::Value(event) => Some(event),
        Stored::Undecodable { .. } => None,
    });
    decoded.collect()
}

/// The instances that have not ended.
fn running(snapshot: &Snapshot) -> Vec<&str> {
    let running = snapshot.instances.iter().filter(|(_, instance)| instance.status == "Running");
    running.map(|(id, _)| id.as_str()).collect()
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// All but the instances with an activity that takes an hour.
    Short,
    /// Those too.
    Long,
}

/// The instances that have not ended, and how much waits in the worker queue. Cheap, as it is asked often.
pub(crate) fn unfinished(world: &World, kind: Kind) -> Vec<String> {
    const AT_ONCE: &str = "a store in memory answers at once";
    let running = world.store.admin().list_instances_by_status("Running").now_or_never().expect(AT_ONCE);
    let depths = world.store.admin().get_queue_depths().now_or_never().expect(AT_ONCE);
    let mut unfinished = running.expect("a store in memory never fails to list");
    let mut waiting = depths.expect("a store in memory never fails to count").worker_queue;
    match kind {
        Kind::Short => {
            let long = unfinished.iter().filter(|instance| is_long(instance)).count();
            unfinished.retain(|instance| !is_long(instance));
            // Each of them has one activity, and nothing else is in its way.
            waiting = waiting.saturating_sub(long);
        }
        Kind::Long => {}
    }
    if waiting > 0 {
        unfinished.push(format!("{waiting} activities in the worker queue"));
    }
    unfinished
}
