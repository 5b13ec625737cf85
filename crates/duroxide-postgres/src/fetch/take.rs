//! Fetches as they are asked for: what was locked is decoded by the task that fetches, not by the one that carries out.

use std::time::Duration;

use duroxide_provider::rules::Call;
use duroxide_provider::support::HistoryRoom;
use duroxide_provider::{FetchedTurn, FetchedWork, ProviderError, TurnRequest, WorkRequest};
use tokio::time::Instant;

use crate::fault::Fault;
use crate::fetch::fetch_turn::RawTurn;
use crate::group::carrier::closed;
use crate::group::parked::{ParkedFetch, Request as _};
use crate::store::PostgresProvider;

impl PostgresProvider {
    /// Fetches turns. Whoever fetches decodes, not the task that everybody waits for.
    pub(crate) async fn take_turns(
        &self,
        mut request: TurnRequest,
    ) -> Result<Vec<FetchedTurn>, ProviderError> {
        const OPERATION: &str = TurnRequest::OPERATION;
        let deadline = Instant::now().checked_add(request.poll_timeout);
        let max_items = request.max_items.max(1);
        let mut turns: Vec<(i64, i64, FetchedTurn)> = Vec::new();
        let mut guards = Vec::new();
        let (mut room, mut full) = (HistoryRoom::default(), false);
        loop {
            request.max_items = max_items - turns.len();
            let timeout = left(deadline, turns.is_empty());
            let (fetch, waiting) = ParkedFetch::new(request.clone(), timeout);
            self.inbox.park_turns(fetch);
            let delivery = waiting.await.map_err(|_| closed(OPERATION))??;
            let (found, mut guard) = delivery.open();
            let mut passed_over = false;
            for raw in found {
                let (token, ready_at, suspect) = (raw.token, raw.ready_at, raw.is_suspect());
                full = full || (!turns.is_empty() && !room.take(raw.history_to_read(&request)));
                if full {
                    guard.return_one(token);
                    continue;
                }
                let Some(turn) = self.admit(OPERATION, raw, &request).await? else {
                    passed_over = true;
                    continue;
                };
                if suspect {
                    request.suspects = request.suspects.after_one();
                }
                turns.push((ready_at, token.key, turn));
            }
            guards.push(guard);
            if full || !passed_over || turns.len() >= max_items {
                guards.into_iter().for_each(crate::group::call::Guard::arrived);
                // What a second look found may have been ready before what the first found.
                turns.sort_by_key(|(ready_at, key, _)| (*ready_at, *key));
                return Ok(turns.into_iter().map(|(_, _, turn)| turn).collect());
            }
        }
    }

    /// The turn of a locked instance; `None` when there is nothing in it, or the instance was deleted.
    pub(crate) async fn admit(
        &self,
        operation: &'static str,
        mut raw: RawTurn,
        request: &TurnRequest,
    ) -> Result<Option<FetchedTurn>, ProviderError> {
        let admitted = raw.admit();
        if !admitted.aside.is_empty() {
            let (token, aside, left) = (raw.token, admitted.aside.clone(), admitted.left);
            self.carry(operation, Call::AsideMessages { token, aside, left }).await?;
        }
        if admitted.left == 0 {
            return Ok(None);
        }
        let completed = Box::pin(raw.complete(self, request, admitted)).await;
        completed.map_err(|fault: Fault| fault.into_error(operation))
    }

    /// Fetches work items.
    pub(crate) async fn take_work(
        &self,
        mut request: WorkRequest,
    ) -> Result<Vec<FetchedWork>, ProviderError> {
        const OPERATION: &str = WorkRequest::OPERATION;
        let deadline = Instant::now().checked_add(request.poll_timeout);
        let max_items = request.max_items.max(1);
        let mut work: Vec<(i64, i64, FetchedWork)> = Vec::new();
        let mut guards = Vec::new();
        loop {
            request.max_items = max_items - work.len();
            let timeout = left(deadline, work.is_empty());
            let (fetch, waiting) = ParkedFetch::new(request.clone(), timeout);
            self.inbox.park_work(fetch);
            let delivery = waiting.await.map_err(|_| closed(OPERATION))??;
            let (found, guard) = delivery.open();
            guards.push(guard);
            let mut passed_over = false;
            for raw in found {
                let (ready_at, id) = (raw.ready_at, raw.token.key);
                match raw.decode() {
                    Ok(fetched) => {
                        if fetched.suspect {
                            request.suspects = request.suspects.after_one();
                        }
                        work.push((ready_at, id, fetched));
                    }
                    Err((token, cause)) => {
                        passed_over = true;
                        self.carry(OPERATION, Call::AsideWork { token, cause }).await?;
                    }
                }
            }
            if !passed_over || work.len() >= max_items {
                guards.into_iter().for_each(crate::group::call::Guard::arrived);
                work.sort_by_key(|(ready_at, id, _)| (*ready_at, *id));
                return Ok(work.into_iter().map(|(_, _, work)| work).collect());
            }
        }
    }
}

/// How long a fetch may still wait: not at all when it has something.
fn left(deadline: Option<Instant>, is_empty: bool) -> Duration {
    match deadline {
        _ if !is_empty => Duration::ZERO,
        Some(deadline) => deadline.saturating_duration_since(Instant::now()),
        None => Duration::MAX,
    }
}
