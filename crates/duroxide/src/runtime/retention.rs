//! Removing by itself what nobody needs any more: finished instances and old executions.
//!
//! Everything is removed in small transactions, so that work goes on between them; the pages that they free are
//! used again, so that a file stops growing without being compacted.

use std::sync::Arc;
use std::time::Duration;

use super::node::Node;
use crate::clock::millis;
use crate::metric;
use crate::providers::{InstanceFilter, ProviderAdmin, ProviderError, ProviderErrorKind, PruneOptions};

/// Finished roots that one transaction removes, with their trees.
const ROOTS_PER_CALL: u32 = 100;
/// Instances that are looked for at once.
const INSTANCES_PER_SEARCH: u32 = 100;
/// Old executions of one instance that one transaction removes.
const EXECUTIONS_PER_CALL: usize = 100;

/// What a runtime removes by itself. Several nodes may have a policy; each removes what it finds.
///
/// ```
/// use std::time::Duration;
/// use duroxide::runtime::{RetentionPolicy, RuntimeOptions};
///
/// let options = RuntimeOptions {
///     retention: Some(RetentionPolicy {
///         finished_older_than: Some(Duration::from_secs(30 * 24 * 60 * 60)),
///         keep_executions: Some(10),
///         ..RetentionPolicy::default()
///     }),
///     ..RuntimeOptions::default()
/// };
/// # drop(options);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// Finished root instances, with their trees, once they ended this long ago; `None` keeps them all.
    ///
    /// A root with a descendant that runs is kept.
    pub finished_older_than: Option<Duration>,
    /// Executions of each instance beyond this many, the current one counted; `None` keeps them all.
    pub keep_executions: Option<u32>,
    /// The time between two rounds. 60 s.
    pub interval: Duration,
}

impl Default for RetentionPolicy {
    fn default() -> Self {
        Self { finished_older_than: None, keep_executions: None, interval: Duration::from_secs(60) }
    }
}

/// Removes what the policy names, again and again, until the node stops.
pub(super) async fn run(node: Arc<Node>, policy: RetentionPolicy) {
    let Some(admin) = node.provider.as_management_capability() else {
        tracing::warn!(
            target: "duroxide::runtime",
            store = node.provider.name(),
            "the store has no management calls: retention removes nothing"
        );
        return;
    };
    loop {
        tokio::select! {
            biased;
            () = node.stopping.cancelled() => return,
            () = tokio::time::sleep(policy.interval) => {}
        }
        if let Err(error) = round(&node, admin, &policy).await {
            // The next round finds what this one left.
            node.store_failed("removing what is past its retention", &error);
        }
    }
}

async fn round(
    node: &Node,
    admin: &dyn ProviderAdmin,
    policy: &RetentionPolicy,
) -> Result<(), ProviderError> {
    if let Some(age) = policy.finished_older_than {
        delete_finished(node, admin, age).await?;
    }
    if let Some(keep) = policy.keep_executions {
        prune_executions(node, admin, keep.max(1)).await?;
    }
    Ok(())
}

async fn delete_finished(node: &Node, admin: &dyn ProviderAdmin, age: Duration) -> Result<(), ProviderError> {
    let filter = InstanceFilter {
        instance_ids: None,
        completed_before: Some(admin.now_ms().await?.saturating_sub(millis(age))),
        limit: Some(ROOTS_PER_CALL),
    };
    while !node.stopping.is_cancelled() {
        let deleted = admin.delete_instance_bulk(filter.clone()).await?.instances_deleted;
        if deleted == 0 {
            break;
        }
        metric::retention_instances_deleted().increment(deleted);
    }
    Ok(())
}

async fn prune_executions(node: &Node, admin: &dyn ProviderAdmin, keep: u32) -> Result<(), ProviderError> {
    while !node.stopping.is_cancelled() {
        let mut pruned = 0;
        for instance in admin.list_instances_to_prune(keep, INSTANCES_PER_SEARCH).await? {
            pruned += match prune_instance(node, admin, &instance, keep).await {
                // Deleted since it was found.
                Err(error) if error.kind() == ProviderErrorKind::NotFound => 0,
                other => other?,
            };
        }
        if pruned == 0 {
            break;
        }
        metric::retention_executions_pruned().increment(pruned);
    }
    Ok(())
}

/// Prunes an instance that continues as new between two rounds: one that does so quickly would otherwise grow by all
/// that it does in that time.
pub(super) fn continued_as_new(node: &Arc<Node>, instance: &str, execution_id: u64) {
    let Some(keep) = node.options.retention.as_ref().and_then(|policy| policy.keep_executions) else {
        return;
    };
    let keep = keep.max(1);
    // One call for several executions; the more are kept, the more may come on top.
    let several = u64::from((keep / 10).clamp(1, 100));
    if execution_id <= u64::from(keep) || !execution_id.is_multiple_of(several) {
        return;
    }
    let (pruning, instance) = (node.clone(), instance.to_string());
    node.spawn(async move {
        let Some(admin) = pruning.provider.as_management_capability() else { return };
        match prune_instance(&pruning, admin, &instance, keep).await {
            Ok(pruned) => metric::retention_executions_pruned().increment(pruned),
            // Deleted since.
            Err(error) if error.kind() == ProviderErrorKind::NotFound => {}
            Err(error) => pruning.store_failed("removing old executions", &error),
        }
    });
}

/// Prunes an instance, a bounded number of executions at a time; how many that were.
async fn prune_instance(
    node: &Node,
    admin: &dyn ProviderAdmin,
    instance: &str,
    keep: u32,
) -> Result<u64, ProviderError> {
    let target = usize::try_from(keep).unwrap_or(usize::MAX);
    let mut stored = admin.list_executions(instance).await?.len();
    let mut pruned = 0;
    while stored > target && !node.stopping.is_cancelled() {
        stored = stored.saturating_sub(EXECUTIONS_PER_CALL).max(target);
        let options = PruneOptions {
            keep_last: Some(u32::try_from(stored).unwrap_or(u32::MAX)),
            completed_before: None,
        };
        pruned += admin.prune_executions(instance, options).await?.executions_deleted;
    }
    Ok(pruned)
}
