//! The orchestrations whose histories are kept. They must not change: a change would be told from a fault of the
//! engine by nothing.

mod chains;
mod families;
mod faulty;
mod mixed;
mod retries;
mod state;
mod values;
mod waits;

use duroxide::OrchestrationRegistry;

pub(crate) use chains::MESSAGES;
pub(crate) use mixed::mixed_output;

use crate::shared::phase::Phase;

pub(crate) fn orchestrations(phase: Phase) -> OrchestrationRegistry {
    let builder = retries::register(OrchestrationRegistry::builder());
    let builder = families::register(values::register(builder));
    let builder = waits::register(chains::register(builder, phase));
    faulty::register(state::register(mixed::register(builder)), phase).build()
}
