//! Stores that are broken on purpose, to see that the search notices.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::Between;
use super::calls::Call;

/// Says `Ok` to an event and forgets it.
pub(crate) struct ForgetsEvents;

impl Between for ForgetsEvents {
    fn instead(&self, call: &Call) -> Option<String> {
        matches!(call, Call::Raise { .. }).then(|| "Message(Delivered)".to_string())
    }
}

/// Answers a read with what the first such read found.
#[derive(Default)]
pub(crate) struct AnswersFromTheFirstRead(Mutex<BTreeMap<String, String>>);

impl Between for AnswersFromTheFirstRead {
    fn answer(&self, call: &Call, answer: String) -> String {
        if !matches!(call, Call::ReadStatus { .. } | Call::ReadHistory { .. } | Call::List) {
            return answer;
        }
        let mut read = self.0.lock().expect("nobody panics while holding it");
        read.entry(format!("{call:?}")).or_insert(answer).clone()
    }
}

/// Says `Ok` to the commit of a turn that was refused, and to one that was not made.
pub(crate) struct AcksEverything;

impl Between for AcksEverything {
    fn answer(&self, call: &Call, answer: String) -> String {
        if matches!(call, Call::AckTurn(_)) { "()".to_string() } else { answer }
    }
}

/// Gives a turn out with the attempts that it would have if nobody had fetched it before.
pub(crate) struct ForgetsAttempts;

impl Between for ForgetsAttempts {
    fn answer(&self, call: &Call, answer: String) -> String {
        if matches!(call, Call::FetchTurn) {
            return answer.replace(", attempt 2:", ", attempt 1:").replace(", attempt 3:", ", attempt 1:");
        }
        answer
    }
}
