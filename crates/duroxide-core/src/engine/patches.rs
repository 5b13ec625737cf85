//! Patches: changes of a program that executions which have passed the place already do not see.
//!
//! A marker in the history says that an execution goes the new way. It stands where the program asked first.

use std::collections::{BTreeMap, BTreeSet};

use super::OrchestrationContext;
use super::carry_out::{check_new, record};
use super::commands::Command;
use super::execution::{Pass, Stop};
use crate::model::{EventKind, check_name};

/// What an execution knows about its patches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Patches {
    /// The markers of the history that is replayed.
    recorded: BTreeSet<String>,
    /// What the program was told. The first answer holds for the whole execution.
    answers: BTreeMap<String, bool>,
}

impl Patches {
    /// The history has a marker of this id.
    pub(super) fn note(&mut self, id: &str) {
        self.recorded.insert(id.to_string());
    }
}

impl OrchestrationContext {
    /// Whether this execution goes the way of the patch: a change of the program that would not fit histories which were
    /// recorded before it.
    ///
    /// True where the program runs for the first time; that is recorded. While a history is replayed, true exactly if it
    /// holds the record. The first answer for an id holds for the whole execution.
    #[track_caller]
    pub fn patched(&self, id: &str) -> bool {
        let is_replaying = self.is_replaying();
        self.desk.change(|view, commands| {
            if let Some(answer) = view.patches.answers.get(id) {
                return *answer;
            }
            let answer = !is_replaying || view.patches.recorded.contains(id);
            view.patches.answers.insert(id.to_string(), answer);
            if answer {
                commands.push(Command::MarkPatch { id: id.to_string() });
            }
            answer
        })
    }

    /// Stands where [`Self::patched`] stood, once no execution goes the old way any more: histories with the record still
    /// replay, and new ones get none.
    #[track_caller]
    pub fn deprecate_patch(&self, id: &str) {
        self.desk.push(Command::DeprecatePatch { id: id.to_string() });
    }
}

/// Records that the execution goes the way of the patch.
pub(super) fn mark(id: String, pass: &mut Pass<'_>) -> Result<(), Stop> {
    check_new(pass, || check_name("patch id", &id))?;
    record(pass, None, EventKind::PatchMarked { id })?;
    Ok(())
}

/// Takes the record of the patch, if the history has it next.
pub(super) fn deprecate(id: &str, pass: &mut Pass<'_>) {
    let is_next = pass
        .tape
        .peek()
        .is_some_and(|next| matches!(&next.kind, EventKind::PatchMarked { id: recorded } if recorded == id));
    if is_next {
        pass.tape.take();
    }
}
