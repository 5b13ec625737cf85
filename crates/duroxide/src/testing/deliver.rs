//! Deliveries that are changed on the way: twice, in another order, at another time, not readable.

use duroxide_core::{ItemKind, WorkItem, columns_of};

use super::Fault;
use crate::providers::{FetchedTurn, HistoryPart};

/// What these faults make of a fetched turn.
pub(super) fn changed(mut turn: FetchedTurn, faults: &[Fault]) -> FetchedTurn {
    for fault in faults {
        match *fault {
            Fault::Duplicate => {
                let twice = turn.item.messages.into_iter().flat_map(|message| [message.clone(), message]);
                turn.item.messages = twice.collect();
            }
            Fault::Reorder => reverse_answers(&mut turn.item.messages),
            Fault::SkewTime(by_ms) => {
                if let Some(facts) = &mut turn.facts {
                    facts.now_ms = facts.now_ms.saturating_add_signed(by_ms);
                }
            }
            Fault::Corrupt => {
                turn.item.history.clear();
                turn.item.history_error = Some("event at position 1: damaged on purpose".to_string());
                if let Some(facts) = &mut turn.facts {
                    facts.history = HistoryPart::Whole;
                }
            }
            Fault::FailBefore
            | Fault::LoseAnswer
            | Fault::DelayBefore(_)
            | Fault::DelayAfter(_)
            | Fault::Drop(_)
            | Fault::ExpireLock
            | Fault::RunDry
            | Fault::Refuse
            | Fault::Panic
            | Fault::Pretend
            | Fault::Freeze
            | Fault::FreezeAfter => {}
        }
    }
    turn
}

/// Reverses completions and timers among each other; all else stays where it is. Answers to different questions
/// have no order, events and queue messages have one.
fn reverse_answers(messages: &mut [WorkItem]) {
    let is_answer = |message: &WorkItem| match columns_of(message).kind {
        ItemKind::Completion | ItemKind::Timer => true,
        ItemKind::Start
        | ItemKind::ContinueAsNew
        | ItemKind::Activity
        | ItemKind::Note
        | ItemKind::Event
        | ItemKind::Cancel => false,
    };
    let places: Vec<usize> =
        messages.iter().enumerate().filter(|(_, message)| is_answer(message)).map(|(at, _)| at).collect();
    for (low, high) in places.iter().zip(places.iter().rev()) {
        if low >= high {
            break;
        }
        messages.swap(*low, *high);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timer(id: u64) -> WorkItem {
        WorkItem::TimerFired { instance: "i".to_string(), execution_id: 1, id, fire_at_ms: 0 }
    }

    #[test]
    fn only_answers_change_their_order() {
        let event = |name: &str| WorkItem::ExternalRaised {
            instance: "i".to_string(),
            name: name.to_string(),
            data: String::new(),
        };
        let mut messages = vec![timer(2), event("a"), timer(3), event("b"), timer(4)];
        reverse_answers(&mut messages);
        assert_eq!(messages, [timer(4), event("a"), timer(3), event("b"), timer(2)]);
    }
}
