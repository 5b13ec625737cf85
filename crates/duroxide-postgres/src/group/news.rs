//! What other processes are told: that something is ready, and which instances changed.

use std::time::Duration;

use duroxide_provider::rules::Effects;
use futures_util::FutureExt as _;

use crate::fetch::horizon::WrittenRows;
use crate::group::carrier::Carrier;
use crate::options::PostgresOptions;
use crate::values::{Ms, duration};

/// What others must be told.
#[derive(Debug)]
pub(crate) struct News {
    channel: String,
    /// What is due later than this is found by everybody's own look.
    patience: Ms,
}

/// The channel of a schema. The name of a channel has at most 63 bytes.
pub(crate) fn channel(schema: &str) -> String {
    format!("duroxide_{:016x}", crate::values::lock_number(schema, "channel", "").cast_unsigned())
}

/// How an instance is named in a notification, whose length is limited.
pub(crate) fn short_name(instance: &str) -> String {
    format!("{:016x}", crate::values::lock_number("", "", instance).cast_unsigned())
}

/// Names in one notification: far below the 8000 bytes that it may have.
const NAMES_PER_MESSAGE: usize = 400;

impl News {
    pub(crate) fn new(options: &PostgresOptions, patience: Duration) -> Self {
        Self { channel: channel(&options.schema), patience: duration(patience) }
    }
}

impl Carrier {
    /// Tells other processes, in a transaction of its own: a commit that notifies makes all others of its kind
    /// wait, so none that writes does. If this gets lost, everybody's own look finds it.
    pub(crate) async fn announce(
        &mut self,
        effects: &Effects,
        written: &WrittenRows,
        turns: bool,
        work: bool,
    ) {
        const SQL: &str = "SELECT pg_notify($1, u.text) FROM unnest($2::text[]) AS u (text)";
        let mut texts = Vec::new();
        let now = effects.now;
        let soon = effects.turns_soon.saturating_sub(now) < self.news.patience;
        if turns || work || soon {
            let (turns, work) = (if turns { "t" } else { "" }, if work { "w" } else { "" });
            texts.push(format!("ready:{turns}{work}{}", written.text()));
        }
        if soon {
            texts.push(format!("due:{}", effects.turns_soon - now));
        }
        for names in effects.changed.chunks(NAMES_PER_MESSAGE) {
            let names: Vec<String> = names.iter().map(|id| short_name(id)).collect();
            texts.push(format!("changed:{}", names.join(",")));
        }
        if texts.is_empty() {
            return;
        }
        let Some(conn) = &self.conn else { return };
        let Ok(statement) = conn.prepared(SQL).await else { return };
        conn.count_statements(1);
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 2] = [&self.news.channel, &texts];
        let mut sending = conn.client.query(&statement, &params).boxed();
        // Sent when it is asked for the first time; nobody waits for the answer.
        if let std::task::Poll::Ready(Err(error)) = futures_util::poll!(&mut sending) {
            tracing::debug!(target: "duroxide::runtime", %error, "other processes could not be notified");
        }
    }
}
