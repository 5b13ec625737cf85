//! Typed programs, on the memory store and on SQLite in memory.

#[cfg(feature = "macros")]
mod attributes;
mod calls;
mod errors;
mod many;
mod options;
mod problems;
mod programs;
mod saga;
mod starts;
mod styles;

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duroxide::providers::Provider;
use duroxide::providers::memory::MemoryProvider;
use duroxide::{Builder, Duroxide};
use tokio::sync::Notify;

/// Longer than any test takes; one that hangs fails with it.
const LONG: Duration = Duration::from_secs(30);

async fn stores() -> Vec<Arc<dyn Provider>> {
    let mut stores: Vec<Arc<dyn Provider>> = vec![Arc::new(MemoryProvider::new())];
    #[cfg(feature = "sqlite")]
    stores.push(duroxide::open_store("sqlite::memory:").await.expect("the store opens"));
    stores
}

/// Runs the same program on each store.
async fn check<Fut: Future<Output = ()>>(
    register: impl Fn(Builder) -> Builder,
    program: impl Fn(Duroxide) -> Fut,
) {
    for store in stores().await {
        let app = register(Builder::on_store(store).discover(false)).start().await.expect("it starts");
        tokio::time::timeout(LONG, program(app.clone())).await.expect("the program ends in time");
        app.shutdown().await.expect("it stops");
    }
}

/// What activities wrote down, as state of a program.
#[derive(Clone, Default)]
struct Diary(Arc<Pages>);

#[derive(Default)]
struct Pages {
    lines: Mutex<Vec<String>>,
    written: Notify,
}

impl Diary {
    fn write(&self, line: impl Into<String>) {
        self.0.lines.lock().expect("not poisoned").push(line.into());
        self.0.written.notify_waiters();
    }

    fn lines(&self) -> Vec<String> {
        self.0.lines.lock().expect("not poisoned").clone()
    }

    /// Waits until a line is written.
    async fn has(&self, line: &str) {
        loop {
            let written = self.0.written.notified();
            if self.lines().iter().any(|there| there == line) {
                return;
            }
            written.await;
        }
    }
}
