//! Several statements in one round trip: all are sent before the first answer is waited for.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};

use crate::connections::connection::Conn;
use crate::fault::{Fault, is_about_values};
use crate::rows::write_group::set_alone;

/// A value on its way into a statement.
pub(crate) type Value = Box<dyn ToSql + Sync + Send>;

/// Statements that are sent together, in their order.
#[derive(Default)]
pub(crate) struct Pipeline {
    steps: Vec<(&'static str, Vec<Value>)>,
}

/// Whether a transaction has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Transaction {
    Begun,
    #[default]
    None,
}

/// The answers, in the order of the statements.
pub(crate) struct Answers(Vec<Result<Vec<Row>, tokio_postgres::Error>>);

impl Pipeline {
    /// Adds a statement; the place of its answer.
    pub(crate) fn add(&mut self, sql: &'static str, params: Vec<Value>) -> usize {
        self.steps.push((sql, params));
        self.steps.len() - 1
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Sends all, as a transaction of its own unless one has begun, and waits for its end.
    pub(crate) async fn commit(
        self,
        conn: &Conn<'_>,
        transaction: Transaction,
    ) -> Result<Vec<Vec<Row>>, Fault> {
        match self.run_and_commit(conn, transaction).await {
            Ok(answers) => Ok(answers),
            Err(Fault::NoAnswer(time)) => Err(Fault::UnknownOutcome(format!("no answer for {time:?}"))),
            Err(fault) => Err(fault),
        }
    }

    async fn run_and_commit(
        mut self,
        conn: &Conn<'_>,
        transaction: Transaction,
    ) -> Result<Vec<Vec<Row>>, Fault> {
        match transaction {
            Transaction::Begun => {
                self.add("COMMIT", Vec::new());
                self.run(conn).await?.committed()
            }
            // One statement is a transaction by itself.
            Transaction::None if self.steps.len() <= 1 => {
                if let Some((sql, params)) = self.steps.first_mut() {
                    set_alone(sql, params);
                }
                self.run(conn).await?.committed()
            }
            Transaction::None => {
                self.steps.insert(0, ("BEGIN", Vec::new()));
                self.add("COMMIT", Vec::new());
                let answers = self.run(conn).await?.committed()?;
                Ok(answers.into_iter().skip(1).collect())
            }
        }
    }

    /// Sends all and waits for all. An error means that nothing was sent, or that no answer came.
    pub(crate) async fn run(self, conn: &Conn<'_>) -> Result<Answers, Fault> {
        let mut statements: Vec<Statement> = Vec::with_capacity(self.steps.len());
        for (sql, _) in &self.steps {
            statements.push(conn.prepared(sql).await?);
        }
        conn.count_statements(statements.len());
        let params: Vec<Vec<&(dyn ToSql + Sync)>> =
            self.steps.iter().map(|(_, params)| params.iter().map(value_ref).collect()).collect();
        let mut pending: Vec<Pending<'_>> = Vec::with_capacity(statements.len());
        for (statement, params) in statements.iter().zip(&params) {
            let mut answer = conn.client.query(statement, params).boxed();
            // A statement is sent when it is asked for the first time.
            pending.push(match futures_util::poll!(&mut answer) {
                // It cannot be sent. COMMIT must not follow what is missing: without it all is rolled back.
                std::task::Poll::Ready(Err(error)) if is_about_values(&error) => return Err(error.into()),
                std::task::Poll::Ready(answer) => Pending::Done(answer),
                std::task::Poll::Pending => Pending::Waiting(answer),
            });
        }
        let mut answers = Vec::with_capacity(pending.len());
        for one in pending {
            answers.push(match one {
                Pending::Done(answer) => answer,
                // Each statement has its own time on the server.
                Pending::Waiting(answer) => conn.answer(answer).await?,
            });
        }
        Ok(Answers(answers))
    }
}

fn value_ref(value: &Value) -> &(dyn ToSql + Sync) {
    value.as_ref()
}

enum Pending<'a> {
    Done(Result<Vec<Row>, tokio_postgres::Error>),
    Waiting(BoxFuture<'a, Result<Vec<Row>, tokio_postgres::Error>>),
}

impl Answers {
    /// All answers, or the first failure: those after it only say that the transaction was aborted.
    pub(crate) fn all(self) -> Result<Vec<Vec<Row>>, Fault> {
        self.0.into_iter().collect::<Result<_, _>>().map_err(Fault::from)
    }

    /// All answers, the last of which tells that all was committed. If only that one failed, the outcome is
    /// unknown.
    pub(crate) fn committed(self) -> Result<Vec<Vec<Row>>, Fault> {
        let last = self.0.len().saturating_sub(1);
        let mut rows = Vec::with_capacity(last);
        for (n, answer) in self.0.into_iter().enumerate() {
            match answer {
                Ok(answer) => rows.push(answer),
                Err(error) if n == last => return Err(commit_failed(error)),
                // COMMIT was sent as well. Unless the server said that this failed, it may have come through.
                Err(error) if error.as_db_error().is_none() => return Err(commit_failed(error)),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(rows)
    }
}

fn commit_failed(error: tokio_postgres::Error) -> Fault {
    match error.as_db_error() {
        // The server refused the commit: nothing was changed.
        Some(refused) if !refused.code().code().starts_with("57P") => Fault::Storage(error),
        Some(_) | None => Fault::UnknownOutcome(error.to_string()),
    }
}

/// Makes the parameters of a statement.
macro_rules! values {
    ($($value:expr),* $(,)?) => {
        vec![$(Box::new($value) as $crate::connections::pipeline::Value),*]
    };
}
pub(crate) use values;
