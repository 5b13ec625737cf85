//! Serving until the process is told to stop.

use duroxide_core::Failure;

use super::Duroxide;

impl Duroxide {
    /// Serves until the process gets SIGINT (Ctrl-C) or SIGTERM, and shuts down in order.
    pub async fn run_until_signal(&self) -> Result<(), Failure> {
        stop_signal().await?;
        self.shutdown().await
    }
}

#[cfg(unix)]
async fn stop_signal() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};

    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _signal = interrupt.recv() => {}
        _signal = terminate.recv() => {}
    }
    Ok(())
}

#[cfg(not(unix))]
async fn stop_signal() -> std::io::Result<()> {
    tokio::signal::ctrl_c().await
}
