//! Calls that must be answered in time, of a store that sometimes hangs.

use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::providers::ProviderError;

/// How long a call may take. One that takes longer has failed for its caller, whatever the store makes of it.
const LONGEST_CALL: Duration = Duration::from_secs(60);
/// How many questions may be without an answer at the same time.
const AT_ONCE: usize = 4;

/// The first answer. A question that hangs is asked again beside it after each `every`, while the answer is wanted.
pub(super) async fn first_answer<Q: Future>(
    every: Duration,
    wanted: impl Fn() -> bool,
    ask: impl Fn() -> Q,
) -> Option<Q::Output> {
    let mut questions = FuturesUnordered::new();
    while wanted() {
        if questions.len() < AT_ONCE {
            questions.push(ask());
        }
        tokio::select! {
            biased;
            answer = questions.next() => return answer,
            () = tokio::time::sleep(every) => {}
        }
    }
    None
}

/// The answer to a call that may be made again, or a failure after a minute without one.
pub(super) async fn answer_in_time<T>(
    call: impl Future<Output = Result<T, ProviderError>>,
) -> Result<T, ProviderError> {
    tokio::time::timeout(LONGEST_CALL, call).await.unwrap_or_else(|_elapsed| {
        Err(ProviderError::retryable("a call of the store", format!("no answer for {LONGEST_CALL:?}")))
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::time::Instant;

    use super::*;

    const EVERY: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_comes_soon_is_asked_for_once() {
        let asked = Cell::new(0);
        let ask = || async {
            asked.set(asked.get() + 1);
            tokio::time::sleep(EVERY / 2).await;
            "answer"
        };
        assert_eq!(first_answer(EVERY, || true, ask).await, Some("answer"));
        assert_eq!(asked.get(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_that_hangs_is_asked_again_a_few_times() {
        let asked = Cell::new(0);
        let begun = Instant::now();
        // The answer to the third question overtakes the others.
        let ask = || async {
            asked.set(asked.get() + 1);
            tokio::time::sleep(if asked.get() == 3 { EVERY * 5 } else { EVERY * 60 }).await;
        };
        assert_eq!(first_answer(EVERY, || true, ask).await, Some(()));
        assert_eq!(begun.elapsed(), EVERY * 7);
        assert_eq!(asked.get(), AT_ONCE);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_an_answer_that_is_not_wanted_any_more() {
        let begun = Instant::now();
        let wanted = || begun.elapsed() < EVERY * 10;
        assert_eq!(first_answer(EVERY, wanted, std::future::pending::<()>).await, None);
        assert_eq!(begun.elapsed(), EVERY * 10);
    }
}
