//! The errors of work that the runtime ends: poison, and what the store does not accept; and why it came to that.
//!
//! The cause is what stands in this node's way. If nothing does, it is the last one that the store kept, or that the
//! lock expired again and again.

use duroxide_core::limits::MAX_POISON_MESSAGE_BYTES;
use duroxide_core::{
    BounceCause, ErrorDetails, MissingCapability, Need, PoisonMessageType, RoutingKey, WorkItem,
    missing_capability, pack_version, pinned_version_of,
};
use semver::Version;

use super::ack::ToAck;
use super::activity_work::Work;
use super::commit::ToCommit;
use super::node::Node;
use super::obstacle::Obstacle;
use super::save::Product;
use super::store_call::answer_in_time;
use crate::providers::{FetchedWork, OrchestrationItem, ProviderError, TurnFacts};

/// What a poison error says about attempts that could not have been made: the fetch that ended the work is one, and
/// none was allowed. So it can be told from work that was tried too often.
const MAX_ATTEMPTS_OF_THE_UNPROCESSABLE: u32 = 0;

/// How something ends that is not run any more.
pub(super) struct Ending {
    pub(super) details: ErrorDetails,
    /// Why, as far as the log may say it.
    pub(super) logged: String,
}

/// How the attempts before this one ended.
pub(super) struct Past {
    /// This one included.
    pub(super) attempts: u32,
    /// Whether the lock of the last one expired.
    pub(super) suspect: bool,
    pub(super) last_cause: Option<BounceCause>,
}

impl Past {
    pub(super) fn of_turn(attempts: u32, facts: Option<&TurnFacts>) -> Self {
        Self {
            attempts,
            suspect: facts.is_some_and(|facts| facts.suspect),
            last_cause: facts.and_then(|facts| facts.last_cause.clone()),
        }
    }

    pub(super) fn of_work(attempts: u32, fetched: &FetchedWork) -> Self {
        Self { attempts, suspect: fetched.suspect, last_cause: fetched.last_cause.clone() }
    }
}

/// What stands in the way of this node, and what is needed of one that can do the work.
struct InTheWay {
    cause: BounceCause,
    need: Need,
}

impl InTheWay {
    /// What keeps this node from running the next turn.
    fn of_turn(node: &Node, item: &OrchestrationItem, obstacle: &Obstacle) -> Self {
        let pinned = pinned_version_of(&item.history).map(|version| pack_version(&version));
        Self { cause: obstacle.cause(node), need: Need::Turn(RoutingKey { pinned, route: obstacle.route() }) }
    }

    /// What keeps this node from running an activity, if anything does.
    fn of_activity(node: &Node, work: &Work) -> Option<Self> {
        node.activities.resolve_handler(&work.name).is_none().then(|| Self {
            cause: work.unregistered(),
            need: Need::Activity { name: work.name.clone(), tag: work.tag.clone() },
        })
    }
}

/// Ends an instance that was attempted too often.
pub(super) async fn of_turn(
    node: &Node,
    item: &OrchestrationItem,
    obstacle: Option<Obstacle>,
    past: Past,
) -> Ending {
    if let (None, Some(cause @ BounceCause::CommitRefused { .. })) = (&obstacle, &past.last_cause) {
        let details = turn_not_accepted(cause, past.attempts.saturating_sub(1));
        return Ending { details, logged: cause.logged() };
    }
    let in_the_way = obstacle.as_ref().map(|obstacle| InTheWay::of_turn(node, item, obstacle));
    let message_type = match obstacle {
        Some(Obstacle::Incompatible { pinned }) => {
            let details = not_replayed(item, &pinned, &node.replayed_versions());
            return Ending { details, logged: why(node, in_the_way, past).await.logged };
        }
        Some(Obstacle::Undecodable(error)) => PoisonMessageType::FailedDeserialization {
            instance: item.instance.clone(),
            execution_id: item.execution_id,
            error,
        },
        Some(Obstacle::Unregistered { .. } | Obstacle::NoStart) | None => whose_inbox(item),
    };
    poisoned(node, message_type, &item.messages, in_the_way, past, node.options.max_attempts).await
}

/// Ends an instance whose next turn no node can run.
pub(super) async fn of_swept_turn(
    node: &Node,
    item: &OrchestrationItem,
    obstacle: Option<Obstacle>,
    past: Past,
) -> Ending {
    let in_the_way = obstacle.as_ref().map(|obstacle| InTheWay::of_turn(node, item, obstacle));
    let max_attempts = MAX_ATTEMPTS_OF_THE_UNPROCESSABLE;
    poisoned(node, whose_inbox(item), &item.messages, in_the_way, past, max_attempts).await
}

/// Ends an activity that was attempted too often.
pub(super) async fn of_activity(node: &Node, work: &Work, item: &WorkItem, past: Past) -> ErrorDetails {
    of_activity_after(node, work, item, past, node.options.max_attempts).await
}

/// Ends an activity that no node can run.
pub(super) async fn of_swept_activity(node: &Node, work: &Work, item: &WorkItem, past: Past) -> ErrorDetails {
    of_activity_after(node, work, item, past, MAX_ATTEMPTS_OF_THE_UNPROCESSABLE).await
}

async fn of_activity_after(
    node: &Node,
    work: &Work,
    item: &WorkItem,
    past: Past,
    max_attempts: u32,
) -> ErrorDetails {
    let message_type = PoisonMessageType::Activity {
        instance: work.instance.clone(),
        execution_id: work.execution_id,
        activity_name: work.name.clone(),
        activity_id: work.id,
    };
    let in_the_way = InTheWay::of_activity(node, work);
    let messages = std::slice::from_ref(item);
    let ending = poisoned(node, message_type, messages, in_the_way, past, max_attempts).await;
    tracing::error!(
        target: "duroxide::runtime",
        instance_id = %work.instance,
        execution_id = work.execution_id,
        activity_name = %work.name,
        activity_id = work.id,
        cause = %ending.logged,
        "{}",
        ending.details.display_message()
    );
    ending.details
}

async fn poisoned(
    node: &Node,
    message_type: PoisonMessageType,
    messages: &[WorkItem],
    in_the_way: Option<InTheWay>,
    past: Past,
    max_attempts: u32,
) -> Ending {
    let attempt_count = past.attempts;
    let why = why(node, in_the_way, past).await;
    let message = why.before(messages);
    let details = ErrorDetails::Poison { attempt_count, max_attempts, message_type, message };
    Ending { details, logged: why.logged }
}

fn whose_inbox(item: &OrchestrationItem) -> PoisonMessageType {
    PoisonMessageType::Orchestration { instance: item.instance.clone(), execution_id: item.execution_id }
}

/// The failure of an instance whose turn the store did not accept in so many attempts.
fn turn_not_accepted(cause: &BounceCause, attempts: u32) -> ErrorDetails {
    ErrorDetails::not_accepted(ToCommit::SAVING, format!("{cause} ({attempts} attempts)"))
}

/// The failure of an activity whose result the store does not accept.
pub(super) fn result_not_accepted(error: &ProviderError) -> ErrorDetails {
    let message = format!("the store does not accept the result: {}", error.message);
    ErrorDetails::not_accepted(ToAck::SAVING, message)
}

/// The failure of an instance that is pinned to a version which this node does not replay.
fn not_replayed(item: &OrchestrationItem, pinned: &Version, replayed: &str) -> ErrorDetails {
    let message = format!("the execution is pinned to {pinned}, this node replays {replayed}");
    ErrorDetails::unsupported_replay_version(item.orchestration_name.clone(), message)
}

/// Why something is ended, for its error and for the log.
struct Why {
    text: String,
    logged: String,
}

impl Why {
    fn plain(text: String) -> Self {
        Self { logged: text.clone(), text }
    }

    fn of(cause: BounceCause) -> Self {
        let logged = cause.logged();
        Self { text: cause.bounded().to_string(), logged }
    }

    /// The text of the error: what people read first, then the messages.
    fn before(&self, messages: &[WorkItem]) -> String {
        format!("cause: {}; messages: {}", self.text, as_json(messages))
    }
}

async fn why(node: &Node, in_the_way: Option<InTheWay>, past: Past) -> Why {
    const DIED: &str = "the process that ran it probably died or hung";
    let Past { attempts, suspect, last_cause } = past;
    // A store that keeps no causes takes every second attempt for a suspect.
    let expired = suspect && node.provider.keeps_causes();
    match (in_the_way, last_cause) {
        (Some(InTheWay { cause, need }), _) => match cause.missing_handler() {
            Some(handler) => Why::plain(unregistered(&handler, missing(node, &need).await)),
            None => Why::of(cause),
        },
        (None, Some(cause)) if expired => {
            let before = Why::of(cause);
            let with =
                |text: &str| format!("the lock of the last attempt expired: {DIED}; before that: {text}");
            Why { text: with(&before.text), logged: with(&before.logged) }
        }
        (None, Some(cause)) => Why::of(cause),
        (None, None) if expired => {
            Why::plain(format!("the lock expired {} times: {DIED}", attempts.saturating_sub(1)))
        }
        (None, None) => Why::plain("not known, none of the attempts left one".to_string()),
    }
}

fn unregistered(handler: &str, missing: Missing) -> String {
    match missing {
        Missing::OnEveryNode => format!("{handler} is registered on no live node"),
        Missing::ForAnotherReason(missing) => format!("{handler} is not registered on this node: {missing}"),
        Missing::HereAlone => format!("{handler} is not registered on this node; another live node has it"),
        Missing::NotKnown => format!("{handler} is not registered on this node"),
    }
}

/// Where a handler that this node does not have is missing.
enum Missing {
    OnEveryNode,
    /// No live node can do the work, but not because of the handler alone.
    ForAnotherReason(MissingCapability),
    HereAlone,
    /// The store does not tell.
    NotKnown,
}

/// Asks the store what its live nodes have registered.
async fn missing(node: &Node, need: &Need) -> Missing {
    let Some(admin) = node.provider.as_management_capability().filter(|_| node.provider.keeps_nodes()) else {
        return Missing::NotKnown;
    };
    let asked = async { Ok((admin.now_ms().await?, node.provider.list_nodes().await?)) };
    let (now_ms, nodes) = match answer_in_time(asked).await {
        Ok(answer) => answer,
        Err(error) => {
            node.store_failed("listing the nodes", &error);
            return Missing::NotKnown;
        }
    };
    match missing_capability(&nodes, now_ms, need) {
        None => Missing::HereAlone,
        Some(
            MissingCapability::Orchestration
            | MissingCapability::OrchestrationVersion
            | MissingCapability::Activity,
        ) => Missing::OnEveryNode,
        Some(
            other @ (MissingCapability::ReplayVersion
            | MissingCapability::Tag
            | MissingCapability::OneNodeWithAll),
        ) => Missing::ForAnotherReason(other),
        // This node lives; its heartbeat has not reached the store.
        Some(MissingCapability::LiveNode) => Missing::NotKnown,
    }
}

/// The whole messages as a JSON array, oldest first, up to a limit, then a count of the rest.
fn as_json(messages: &[WorkItem]) -> String {
    let mut text = String::from("[");
    for (index, message) in messages.iter().enumerate() {
        let json = serde_json::to_string(message).expect("work items hold only strings and numbers");
        if text.len() + json.len() > MAX_POISON_MESSAGE_BYTES {
            let comma = if index > 0 { "," } else { "" };
            text.push_str(&format!("{comma}{{\"more\":{}}}", messages.len() - index));
            break;
        }
        if index > 0 {
            text.push(',');
        }
        text.push_str(&json);
    }
    text + "]"
}
