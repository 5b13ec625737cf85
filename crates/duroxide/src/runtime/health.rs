//! Looking again and again whether everything that was scheduled is on its way.

use std::sync::Arc;
use std::time::Duration;

use super::node::Node;
use crate::client::{Client, ClientError, Finding, FindingKind, HealthOptions};
use crate::metric;

/// What a runtime checks by itself. Several nodes may have a policy; each looks at everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthPolicy {
    /// The time between two rounds. 60 s.
    pub interval: Duration,
    /// Whether what the history proves to be missing is put back. Without it, it is only reported.
    pub repair: bool,
    /// What a round looks at. Each goes on where the one before stopped.
    pub options: HealthOptions,
}

impl Default for HealthPolicy {
    fn default() -> Self {
        Self { interval: Duration::from_secs(60), repair: false, options: HealthOptions::default() }
    }
}

/// Checks at each interval, until the node stops.
pub(super) async fn run(node: Arc<Node>, policy: HealthPolicy) {
    let client = Client::new(node.provider.clone()).with_identity(format!("node {}", node.node_id));
    let mut options = policy.options.clone();
    loop {
        tokio::select! {
            biased;
            () = node.stopping.cancelled() => return,
            () = tokio::time::sleep(policy.interval) => {}
        }
        match round(&node, &client, &options, policy.repair).await {
            Ok(next) => options.after = next,
            // The next round finds what this one did not.
            Err(ClientError::Provider(error)) => node.store_failed("checking the store's health", &error),
            Err(error) => {
                tracing::warn!(target: "duroxide::runtime", %error, "the store's health cannot be checked");
            }
        }
    }
}

async fn round(
    node: &Node,
    client: &Client,
    options: &HealthOptions,
    repair: bool,
) -> Result<Option<crate::providers::Cursor>, ClientError> {
    let report = client.health_with(options).await?;
    for kind in ALL {
        let count: u64 =
            report.findings.iter().filter(|found| found.kind == kind).map(|found| found.count).sum();
        metric::health_findings(kind.word()).set(count as f64);
    }
    metric::store_latency().set(report.store_latency.as_secs_f64());
    for found in &report.findings {
        tell(found);
        if let (true, Some(instance)) = (repair && found.kind.is_repairable(), &found.instance) {
            mend(node, client, instance).await?;
        }
    }
    Ok(report.next)
}

const ALL: [FindingKind; 11] = [
    FindingKind::MissingDispatch,
    FindingKind::MissingResult,
    FindingKind::StuckInstance,
    FindingKind::LostStart,
    FindingKind::OverdueTurns,
    FindingKind::OverdueTimers,
    FindingKind::ExpiredTurnLocks,
    FindingKind::OverdueWork,
    FindingKind::ExpiredWorkLocks,
    FindingKind::OrphanWork,
    FindingKind::OrphanMessages,
];

fn tell(found: &Finding) {
    tracing::warn!(
        target: "duroxide::runtime",
        kind = found.kind.word(),
        instance_id = found.instance.as_deref().unwrap_or(""),
        count = found.count,
        age_secs = found.age.unwrap_or_default().as_secs(),
        "health check: something is not as it should be"
    );
}

/// Repairs an instance, unless it has changed since it was looked at: then the next round looks again.
async fn mend(node: &Node, client: &Client, instance: &str) -> Result<(), ClientError> {
    match client.repair(instance).await {
        Ok(_) | Err(ClientError::InstanceNotFound { .. }) => Ok(()),
        Err(ClientError::Provider(error)) if !error.is_retryable() => {
            node.store_failed("repairing an instance", &error);
            Ok(())
        }
        Err(error) => Err(error),
    }
}
