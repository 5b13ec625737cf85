//! Whether the store keeps what was acknowledged, by the log that was written outside it.

use std::collections::{BTreeMap, BTreeSet};

use duroxide::{Client, Event, EventKind};

use super::log::Line;
use super::workload::{Kind, instance, outcome, root_of};
use crate::floor::Failure;

/// What the log says.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// Calls that the store had acknowledged.
    pub(crate) acknowledged: usize,
    /// Runs of activities that began.
    pub(crate) runs: usize,
    /// Different activities among them.
    pub(crate) activities: usize,
    started: BTreeSet<usize>,
    ended: BTreeMap<usize, String>,
    /// What is wrong by the order of the lines alone.
    pub(crate) findings: Vec<String>,
}

impl Told {
    /// Reads the log. Nothing may begin whose result had been recorded: when a stage begins, the results of the stage
    /// before it have been, and so have all when a client has seen the end.
    pub(crate) fn by(lines: &[Line]) -> Self {
        let mut told = Self::default();
        let mut latest: BTreeMap<&str, u32> = BTreeMap::new();
        let mut keys = BTreeSet::new();
        let mut ended_roots = BTreeSet::new();
        for line in lines {
            match line {
                Line::Started { n } => {
                    told.started.insert(*n);
                    told.acknowledged += 1;
                }
                Line::Sent { .. } | Line::Cancelled { .. } => told.acknowledged += 1,
                Line::Ended { n, outcome } => {
                    told.acknowledged += 1;
                    ended_roots.insert(instance(*n));
                    let before = told.ended.insert(*n, outcome.clone());
                    if before.as_ref().is_some_and(|before| before != outcome) {
                        told.findings
                            .push(format!("{}: ended twice, {before:?} and {outcome}", instance(*n)));
                    }
                }
                Line::Begun { instance, stage, key } => {
                    told.runs += 1;
                    keys.insert(key);
                    let latest = latest.entry(instance).or_insert(*stage);
                    if stage < latest || ended_roots.contains(root_of(instance)) {
                        told.findings
                            .push(format!("{instance}: {key} ran after its completion was recorded"));
                    }
                    *latest = (*latest).max(*stage);
                }
            }
        }
        told.activities = keys.len();
        told
    }

    /// How many orchestrations a client has seen the end of.
    pub(crate) fn ended(&self) -> usize {
        self.ended.len()
    }

    /// Compares it with what the store says of one orchestration in the end.
    fn compare(&self, n: usize, stored: Option<&str>) -> Vec<String> {
        let id = instance(n);
        let mut findings = Vec::new();
        let expected = Kind::of(n).expected(n);
        match stored {
            None if self.started.contains(&n) => {
                findings.push(format!("{id}: was acknowledged, and is missing or has not ended"));
            }
            None => findings.push(format!("{id}: was never started")),
            Some(stored) if stored != expected => {
                findings.push(format!("{id}: '{stored}', and must be '{expected}'"));
            }
            Some(_) => {}
        }
        if let Some(seen) = self.ended.get(&n)
            && stored != Some(seen)
        {
            findings.push(format!("{id}: a client has seen '{seen}', the store has {stored:?}"));
        }
        findings
    }
}

/// Everything in the store against the log.
pub(crate) async fn audit(client: &Client, told: &Told, count: usize) -> Result<Vec<String>, Failure> {
    let mut findings = told.findings.clone();
    for n in 0..count {
        let id = instance(n);
        let status = client.get_orchestration_status(&id).await?;
        findings.extend(told.compare(n, outcome(&status).as_deref()));
        let tree = client.get_instance_tree(&id).await?;
        for instance in tree.all_ids {
            for execution in client.list_executions(&instance).await? {
                let history = client.read_execution_history(&instance, execution).await?;
                findings.extend(flaws(&instance, &history));
            }
        }
    }
    let depths = client.get_queue_depths().await?;
    if (depths.orchestrator_queue, depths.worker_queue, depths.timer_queue) != (0, 0, 0) {
        findings.push(format!("something is left in a queue: {depths:?}"));
    }
    let health = client.health().await?;
    findings.extend(health.findings.iter().map(|finding| format!("health: {finding:?}")));
    Ok(findings)
}

/// Ids dense, times in order, one terminal event and last, at most one completion per schedule.
fn flaws(instance: &str, history: &[Event]) -> Vec<String> {
    let mut flaws = Vec::new();
    let mut completions: BTreeMap<u64, u32> = BTreeMap::new();
    let mut before_ms = 0;
    for (event, expected_id) in history.iter().zip(1_u64..) {
        if event.event_id != expected_id {
            flaws.push(format!("{instance}: event {} stands at {expected_id}", event.event_id));
        }
        if event.is_terminal() != (expected_id == history.len() as u64) {
            flaws.push(format!("{instance}: the terminal event is not the last at {expected_id}"));
        }
        if event.timestamp_ms < before_ms {
            flaws.push(format!("{instance}: time goes back at {expected_id}"));
        }
        before_ms = event.timestamp_ms;
        if matches!(event.kind, EventKind::ActivityCompleted { .. } | EventKind::ActivityFailed { .. }) {
            *completions.entry(event.source_event_id.unwrap_or_default()).or_default() += 1;
        }
    }
    let twice = completions.iter().filter(|(_, times)| **times > 1);
    flaws.extend(twice.map(|(schedule, times)| format!("{instance}: {schedule} completed {times} times")));
    flaws
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(instance: &str, stage: u32) -> Line {
        Line::Begun { instance: instance.to_string(), stage, key: format!("{instance}:1:{stage}") }
    }

    fn ended(n: usize, outcome: &str) -> Line {
        Line::Ended { n, outcome: outcome.to_string() }
    }

    #[test]
    fn an_activity_may_run_again_before_its_completion_is_recorded_and_not_after() {
        let fair = Told::by(&[begun("k0", 1), begun("k0", 1), begun("k0", 2), begun("k1", 1)]);
        assert_eq!((fair.runs, fair.activities, fair.findings.len()), (4, 3, 0));
        let late = Told::by(&[begun("k0", 1), begun("k0", 2), begun("k0", 1)]);
        assert_eq!(late.findings, ["k0: k0:1:1 ran after its completion was recorded"]);
    }

    #[test]
    fn nothing_may_run_once_a_client_has_seen_the_end_not_even_in_a_child() {
        let child = Told::by(&[begun("k2/child", 1), ended(2, "completed 2..."), begun("k2/child", 1)]);
        assert_eq!(child.findings, ["k2/child: k2/child:1:1 ran after its completion was recorded"]);
    }

    #[test]
    fn what_was_acknowledged_and_is_missing_or_different_is_found() {
        let told = Told::by(&[Line::Started { n: 0 }, ended(0, "completed 0.....")]);
        assert!(told.compare(0, Some("completed 0.....")).is_empty());
        assert_eq!(told.compare(0, None).len(), 2, "the start and the result that was seen");
        assert_eq!(told.compare(0, Some("failed poisoned")).len(), 2);
        assert_eq!(told.compare(3, None), ["k3: was never started"]);
        assert_eq!(told.compare(3, Some("completed 4.")), ["k3: 'completed 4.', and must be 'completed 3.'"]);
    }
}
