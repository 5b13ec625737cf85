//! A caller that goes away in the middle of a call.

use std::pin::pin;
use std::task::Poll;

/// Lets a call go on for so many times and drops it when it would for the next. `None` if it had not ended by then.
pub async fn drop_after<C: Future>(times: u32, call: C) -> Option<C::Output> {
    let mut call = pin!(call);
    let mut left = times;
    std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        call.as_mut().poll(context).map(Some)
    })
    .await
}
