//! What other processes say: that something is ready, and which instances changed.

use std::sync::Arc;
use std::time::Duration;

use duroxide_provider::support::Waiters;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_postgres::{AsyncMessage, Connection, Socket};

use crate::connections::connection::{Conn, Driver, Target};
use crate::fault::Fault;
use crate::fetch::horizon::WrittenRows;
use crate::group::carrier::Inbox;
use crate::group::news::channel;
use crate::options::PostgresOptions;
use crate::statistics::{Counters, add};

/// The pause before a lost connection is made anew, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Listens, and listens again when the connection is lost.
pub(crate) struct Listener {
    target: Arc<Target>,
    channel: String,
    inbox: Arc<Inbox>,
    waiters: Arc<Waiters>,
    counters: Arc<Counters>,
    /// How long nothing is heard before the server is asked whether it is there.
    silence: Duration,
}

/// Hands what is said to the listener.
struct Forward(mpsc::UnboundedSender<String>);

impl Driver for Forward {
    fn start<S>(self, mut connection: Connection<Socket, S>) -> JoinHandle<()>
    where
        S: tokio_postgres::tls::TlsStream + Unpin + Send + 'static,
    {
        tokio::spawn(async move {
            loop {
                match std::future::poll_fn(|cx| connection.poll_message(cx)).await {
                    Some(Ok(AsyncMessage::Notification(said))) => {
                        if self.0.send(said.payload().to_string()).is_err() {
                            return;
                        }
                    }
                    Some(Ok(_)) => {}
                    Some(Err(error)) => {
                        tracing::debug!(target: "duroxide::runtime", %error, "the listening connection ended");
                        return;
                    }
                    None => return,
                }
            }
        })
    }
}

impl Listener {
    pub(crate) fn new(
        target: Arc<Target>,
        options: &PostgresOptions,
        inbox: Arc<Inbox>,
        waiters: Arc<Waiters>,
        counters: Arc<Counters>,
    ) -> Self {
        let silence = Some(options.statement_timeout).filter(|limit| !limit.is_zero());
        let silence = silence.unwrap_or(PostgresOptions::default().statement_timeout);
        Self { target, channel: channel(&options.schema), inbox, waiters, counters, silence }
    }

    /// Runs until it is aborted.
    pub(crate) async fn run(self) {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.listen().await {
                Ok((conn, said)) => {
                    pause = FIRST_PAUSE;
                    // What was said while nobody listened is not said again.
                    self.wake_all();
                    self.hear_all(&conn, said).await.unwrap_or_else(failed);
                }
                Err(fault) => failed(fault),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn listen(&self) -> Result<(Conn<'static>, mpsc::UnboundedReceiver<String>), Fault> {
        let (sender, said) = mpsc::unbounded_channel();
        let conn = self.target.open(Forward(sender)).await?;
        conn.answer(conn.client.batch_execute(&format!("LISTEN {}", self.channel))).await??;
        Ok((conn, said))
    }

    /// Hears what is said until the connection ends or falls silent.
    async fn hear_all(
        &self,
        conn: &Conn<'static>,
        mut said: mpsc::UnboundedReceiver<String>,
    ) -> Result<(), Fault> {
        loop {
            match tokio::time::timeout(self.silence, said.recv()).await {
                Ok(Some(text)) => self.hear(&text),
                Ok(None) => return Ok(()),
                Err(_) => drop(conn.execute("SELECT 1", &[]).await?),
            }
        }
    }

    fn wake_all(&self) {
        self.inbox.wake_anew();
        self.waiters.wake_all();
    }

    fn hear(&self, text: &str) {
        add(&self.counters.notifications, 1);
        let (what, rest) = text.split_once(':').unwrap_or((text, ""));
        match what {
            "ready" => match WrittenRows::from_text(rest) {
                Some(written) => {
                    self.inbox.written(written);
                    self.inbox.wake(rest.contains('t'), rest.contains('w'));
                }
                // Said by an older build.
                None => self.inbox.wake_anew(),
            },
            "due" => {
                if let Ok(left) = rest.parse() {
                    self.inbox.wake_turns_after(Duration::from_millis(left));
                }
            }
            "changed" => self.waiters.wake_where(|instance| {
                let name = crate::group::news::short_name(instance);
                rest.split(',').any(|changed| changed == name)
            }),
            // Said by a newer build: better one look too many.
            _ => self.wake_all(),
        }
    }
}

fn failed(fault: Fault) {
    let error = fault.into_error("listen");
    tracing::debug!(target: "duroxide::runtime", %error, "other processes cannot be listened to");
}
