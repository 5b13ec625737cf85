//! Whether a start asks for what the instance of its id was started with.

use super::{Event, EventKind, WorkItem};

/// What a store has of the input that an instance was first started with. Its executions may since have continued as
/// new with other inputs, and the first of them may have been pruned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FirstInput<'a> {
    /// The [fingerprint](start_fingerprint) in the instance's row; `None` in rows of builds that did not write it.
    pub fingerprint: Option<u64>,
    /// The first event of the first execution.
    pub started: Option<&'a Event>,
    /// The start in the inbox, of an instance that has not begun.
    pub start: Option<&'a WorkItem>,
}

impl FirstInput<'_> {
    /// Whether `asked`, a start, asks for this input. `false` if nothing is known of it any more.
    pub fn is_of(&self, asked: &WorkItem) -> bool {
        if self.fingerprint.is_some() {
            return self.fingerprint == start_fingerprint(asked);
        }
        let known = self.started.and_then(input_of_started).or_else(|| self.start.and_then(input_of_start));
        known.is_some() && known == input_of_start(asked)
    }
}

/// The fingerprint of a start's input; `None` for anything but a start.
///
/// It stands in the instance's row and outlives the input itself, so the function never changes. Two inputs with the
/// same fingerprint are taken for the same one. By chance that happens once in 2^64 pairs; a fingerprint is no
/// protection against somebody who makes such a pair on purpose.
pub fn start_fingerprint(start: &WorkItem) -> Option<u64> {
    input_of_start(start).map(fingerprint)
}

fn input_of_start(start: &WorkItem) -> Option<&str> {
    if let WorkItem::StartOrchestration { input, .. } = start { Some(input) } else { None }
}

fn input_of_started(started: &Event) -> Option<&str> {
    if let EventKind::OrchestrationStarted { input, .. } = &started.kind { Some(input) } else { None }
}

/// FNV-1a over the bytes and the length, then the final mixing of MurmurHash3.
pub(super) fn fingerprint(input: &str) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let mut hash = OFFSET;
    let length = u64::try_from(input.len()).unwrap_or(u64::MAX);
    for byte in input.bytes().chain(length.to_le_bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(PRIME);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(input: &str) -> WorkItem {
        WorkItem::StartOrchestration {
            instance: "i".to_string(),
            orchestration: "O".to_string(),
            input: input.to_string(),
            version: None,
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            execution_id: 1,
        }
    }

    fn started(input: &str) -> Event {
        let kind = EventKind::OrchestrationStarted {
            name: "O".to_string(),
            version: "1.0.0".to_string(),
            input: input.to_string(),
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            carry_forward_events: None,
            initial_custom_status: None,
        };
        Event::with_event_id(1, "i", 1, None, kind)
    }

    #[test]
    fn stored_fingerprints_stay_what_they_are() {
        let stored = ["", "{}", "{\"order\":42}", "ä"].map(fingerprint);
        let expected =
            [0x7bd3_144f_29c0_cc9e, 0x1452_dafa_13a0_c9e3, 0x95fd_1003_13bb_e23d, 0x5913_01bf_4d8d_8081];
        assert_eq!(stored, expected);
    }

    #[test]
    fn inputs_that_differ_in_a_byte_or_in_their_order_have_other_fingerprints() {
        let inputs = ["", "a", "b", "ab", "ba", "a\0", "\0a", "aa", " a", "a "];
        let distinct: std::collections::BTreeSet<u64> = inputs.iter().map(|i| fingerprint(i)).collect();
        assert_eq!(distinct.len(), inputs.len());
    }

    #[test]
    fn a_start_is_compared_with_whatever_is_left_of_the_first_input() {
        let (first, other) = (start("one"), start("two"));
        let event = started("one");
        let fingerprint = start_fingerprint(&first);
        for known in [
            FirstInput { fingerprint, ..FirstInput::default() },
            FirstInput { started: Some(&event), ..FirstInput::default() },
            FirstInput { start: Some(&first), ..FirstInput::default() },
        ] {
            assert!(known.is_of(&first), "{known:?}");
            assert!(!known.is_of(&other), "{known:?}");
        }
        assert!(!FirstInput::default().is_of(&first), "nothing is known");
    }
}
