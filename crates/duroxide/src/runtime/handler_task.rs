//! The task that a handler runs as.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use futures_util::future::{AbortHandle, Abortable};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::dispatch::Slot;
use super::node::Node;
use super::threads::in_program;

/// A handler that runs as a task of its own, so that others can wait for it no longer.
pub(super) enum HandlerTask<T> {
    /// On a current-thread runtime, with all other tasks.
    OfTokio(JoinHandle<T>),
    /// On the node's threads for activities.
    OnThreads { result: oneshot::Receiver<T>, abort: AbortHandle },
}

impl<T: Send + 'static> HandlerTask<T> {
    pub(super) fn spawn(node: &Node, handler: impl Future<Output = T> + Send + 'static) -> Self {
        let Some(threads) = &node.activity_threads else {
            return Self::OfTokio(node.tasks.spawn(handler));
        };
        let (sender, result) = oneshot::channel();
        let (abort, registration) = AbortHandle::new_pair();
        threads.spawn(node.tasks.track_future(async move {
            // A handler that is aborted is dropped here, on its thread.
            let ended = Abortable::new(as_program(handler), registration).await;
            if let Ok(value) = ended {
                // The node no longer waits for a handler that was left.
                drop(sender.send(value));
            }
        }));
        Self::OnThreads { result, abort }
    }

    /// Waits for the handler's end. The error says why it has no result.
    pub(super) async fn ended(&mut self) -> Result<T, String> {
        match self {
            Self::OfTokio(task) => task.await.map_err(|error| error.to_string()),
            Self::OnThreads { result, .. } => {
                result.await.map_err(|_| "its task has ended without a result".to_string())
            }
        }
    }

    /// Ends the handler at its next `.await`, and waits for that no longer. One that blocks its thread keeps it until then;
    /// if there are many of them, it keeps the slot, too. Then comes `after`.
    pub(super) fn leave(
        mut self,
        node: &Node,
        slot: &mut Slot,
        after: impl Future<Output = ()> + Send + 'static,
    ) {
        let kept = match &self {
            Self::OfTokio(task) => {
                task.abort();
                None
            }
            Self::OnThreads { abort, .. } => {
                abort.abort();
                let left = node.handlers_left.clone().try_acquire_owned().ok();
                let kept = if left.is_none() { slot.take_permit() } else { None };
                Some((left, kept))
            }
        };
        node.spawn(async move {
            // Whether with a result or without, it has ended.
            drop(self.ended().await);
            drop(kept);
            after.await;
        });
    }
}

/// Polls and drops a handler as the program that it is.
async fn as_program<T>(handler: impl Future<Output = T>) -> T {
    let mut handler = pin!(Some(handler));
    poll_fn(|context| {
        in_program(|| {
            let polled = match handler.as_mut().as_pin_mut() {
                Some(handler) => handler.poll(context),
                None => Poll::Pending,
            };
            if polled.is_ready() {
                handler.set(None);
            }
            polled
        })
    })
    .await
}
