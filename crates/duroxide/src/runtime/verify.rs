//! Live equals replay: a turn of a held execution is run once more from the stored history. For simulations.

use std::sync::Arc;

use duroxide_core::{Before, Event, Execution, KvAnswer, TurnInput, TurnResult, run_turn_with};
use semver::Version;

use super::drive_turn::run_turn;
use super::keeper::KeptLock;
use super::node::Node;
use super::program_log::muted;
use super::verify_replay::run_verified;
use crate::providers::ProviderError;

/// Who knows the stored histories and wants to hear when a replay does something else.
pub trait ReplayAudit: std::fmt::Debug + Send + Sync {
    /// The stored history at this moment, read without waiting.
    fn stored_history(&self, instance: &str, execution_id: u64) -> Vec<Event>;

    /// A replay of the stored history gave another turn than the held execution.
    fn differs(&self, instance: &str, live: String, replayed: String);
}

/// Runs a turn of a held execution and, if the process is audited, compares it with a replay.
pub(super) async fn run_held(
    node: &Node,
    lock: &KeptLock,
    execution: Box<Execution>,
    input: TurnInput,
) -> Result<TurnResult, ProviderError> {
    let mut answers = Vec::new();
    let Some(audit) = node.options.process.audit() else {
        return run_verified(node, lock, Before::Held(execution), input).await;
    };
    let replay = Replay::of(node, audit, &execution, &input);
    let result = run_turn(node, lock, Before::Held(execution), input, &mut answers).await?;
    if let Some(replay) = replay {
        muted(|| replay.compare(&result, answers));
    }
    Ok(result)
}

/// What a replay of the turn needs.
struct Replay {
    audit: Arc<dyn ReplayAudit>,
    handler: Arc<dyn duroxide_core::OrchestrationHandler>,
    version: String,
    history: Vec<Event>,
    input: TurnInput,
}

impl Replay {
    /// `None` if another node has committed a turn meanwhile: this one will not be committed.
    fn of(
        node: &Node,
        audit: Arc<dyn ReplayAudit>,
        execution: &Execution,
        input: &TurnInput,
    ) -> Option<Self> {
        let history = audit.stored_history(&input.instance, input.execution_id);
        if history.last().map(Event::event_id) != Some(execution.last_event_id()) {
            return None;
        }
        let version = execution.orchestration_version().to_string();
        let parsed = Version::parse(&version).ok()?;
        let handler = node.orchestrations.resolve_handler_exact(execution.orchestration_name(), &parsed)?;
        let input = TurnInput {
            instance: input.instance.clone(),
            execution_id: input.execution_id,
            now_ms: input.now_ms,
            entropy: input.entropy,
            messages: input.messages.clone(),
            kv: input.kv.clone(),
        };
        Some(Self { audit, handler, version, history, input })
    }

    fn compare(self, live: &TurnResult, answers: Vec<KvAnswer>) {
        let instance = self.input.instance.clone();
        let before = Before::Stored { handler: self.handler, version: self.version, history: &self.history };
        let mut answers = answers.into_iter();
        let replayed = run_turn_with(before, self.input, |_| {
            answers.next().unwrap_or_else(|| Err("the live turn did not ask for this".to_string()))
        });
        if replayed.turn != live.turn {
            self.audit.differs(&instance, format!("{:?}", live.turn), format!("{:?}", replayed.turn));
        }
    }
}
