//! The store as a process or client reaches it: over a line that fails, and from a process that dies.

mod admin;
mod observe;
mod provider;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use duroxide::providers::ProviderError;

use crate::faults::{Fault, Site};
use crate::world::{Actor, Life, World};

/// The store behind a line that fails.
pub(crate) struct FaultyStore {
    world: Arc<World>,
    actor: Actor,
    life: Option<Arc<Life>>,
    name: String,
}

impl FaultyStore {
    pub(crate) fn new(world: Arc<World>, actor: Actor, life: Option<Arc<Life>>) -> Self {
        let name = life.as_ref().map_or_else(|| "client".to_string(), |life| life.name.clone());
        Self { world, actor, life, name }
    }

    pub(crate) fn of_node(life: Arc<Life>) -> Self {
        Self::new(life.world.clone(), Actor::Node(life.node), Some(life))
    }

    /// Makes a call, or does to it what fate has in store. `work` is carried out at most once, and at once.
    async fn call<T>(
        &self,
        site: Site,
        work: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<T, ProviderError> {
        self.end_if_dead().await;
        let fate = self.world.fate(self.actor);
        tokio::time::sleep(fate.before).await;
        self.end_if_dead().await;
        if self.world.is_cut_off(self.actor) {
            return Err(self.lost(site, "cannot be reached"));
        }
        match fate.fault {
            Fault::FailBefore => return Err(self.lost(site, "fails")),
            Fault::CrashBefore => self.crash(site, "before").await,
            Fault::DelayBefore(delay) => tokio::time::sleep(delay).await,
            Fault::None | Fault::LoseAnswer | Fault::DelayAfter(_) | Fault::CrashAfter => {}
        }
        self.end_if_dead().await;
        let Some(answer) = self.unless_cut_off(work).await else {
            return Err(self.lost(site, "is cut off while it waits"));
        };
        match fate.fault {
            Fault::LoseAnswer => return Err(self.lost(site, "is done but its answer lost")),
            Fault::CrashAfter => self.crash(site, "after").await,
            Fault::DelayAfter(delay) => tokio::time::sleep(delay).await,
            Fault::None | Fault::FailBefore | Fault::DelayBefore(_) | Fault::CrashBefore => {}
        }
        tokio::time::sleep(fate.after).await;
        self.end_if_dead().await;
        if self.world.is_cut_off(self.actor) {
            return Err(self.lost(site, "is done but its answer cannot be reached"));
        }
        answer
    }

    /// Waits for the store to answer; a call that still waits when an outage begins is never carried out.
    async fn unless_cut_off<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                answer = &mut work => return Some(answer),
                () = self.world.outage_begun.notified() => {
                    if self.world.is_cut_off(self.actor) {
                        return None;
                    }
                }
            }
        }
    }

    fn lost(&self, site: Site, what: &str) -> ProviderError {
        self.trace(format_args!("{} {what}", site.name()));
        ProviderError::retryable(site.name(), what)
    }

    /// Kills the process; the call never returns. A client has no process to kill.
    async fn crash(&self, site: Site, moment: &str) {
        if let Some(life) = &self.life {
            life.crash(&format!("{moment} {}", site.name()));
            std::future::pending::<()>().await;
        }
    }

    async fn end_if_dead(&self) {
        if self.life.as_ref().is_some_and(|life| life.is_dead()) {
            std::future::pending::<()>().await;
        }
    }

    fn trace(&self, what: std::fmt::Arguments<'_>) {
        self.world.trace(&self.name, what);
    }
}
