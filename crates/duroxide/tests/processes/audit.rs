//! What must hold for every history, whatever happened to the processes that wrote it.

use std::collections::BTreeMap;

use duroxide::{Event, EventKind};

/// Ids dense, one terminal event and last, one completion per schedule, times in order.
pub(crate) fn audit(instance: &str, history: &[Event]) {
    let mut completions: BTreeMap<u64, u32> = BTreeMap::new();
    for (index, event) in history.iter().enumerate() {
        let expected = u64::try_from(index).expect("histories are short") + 1;
        assert_eq!(event.event_id, expected, "{instance}: ids are dense");
        let is_last = index + 1 == history.len();
        assert_eq!(event.is_terminal(), is_last, "{instance}: one terminal event, and it is last");
        let before = index.checked_sub(1).map_or(0, |before| history[before].timestamp_ms);
        assert!(event.timestamp_ms >= before, "{instance}: times never go back");
        if matches!(event.kind, EventKind::ActivityCompleted { .. } | EventKind::ActivityFailed { .. }) {
            let schedule = event.source_event_id.expect("a completion names its schedule");
            let scheduled = &history[usize::try_from(schedule).expect("short") - 1];
            assert!(
                matches!(scheduled.kind, EventKind::ActivityScheduled { .. }),
                "{instance}: {scheduled:?}"
            );
            *completions.entry(schedule).or_default() += 1;
        }
    }
    let schedules = history.iter().filter(|event| matches!(event.kind, EventKind::ActivityScheduled { .. }));
    for schedule in schedules {
        assert_eq!(completions.get(&schedule.event_id), Some(&1), "{instance}: one completion per schedule");
    }
}
