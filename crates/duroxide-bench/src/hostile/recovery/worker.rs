//! The process that runs the work until it is killed.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry, RuntimeOptions};

use super::store::open;
use crate::floor::{Failure, Kind};

/// One activity of [`WORK`].
pub(super) const WORKS: &str = "Works";
/// One activity that never ends.
pub(super) const NEVER: &str = "Never";
/// [`STEPS`] activities of [`WORK`], one after another.
pub(super) const CHAIN: &str = "Chain";
pub(super) const WORK: Duration = Duration::from_secs(3);
pub(super) const STEPS: u32 = 3;

/// What a worker is told on its command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Orders {
    pub(crate) store: Kind,
    pub(crate) place: String,
    pub(crate) directory: PathBuf,
    pub(crate) lock: Option<Duration>,
}

impl Orders {
    pub(crate) fn arguments(&self) -> [String; 4] {
        let store = match self.store {
            Kind::Sqlite => "sqlite",
            Kind::Postgres => "postgres",
        };
        let lock = self.lock.map_or(0, |lock| lock.as_secs());
        [store.to_string(), self.place.clone(), self.directory.display().to_string(), lock.to_string()]
    }

    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let arguments: Vec<String> = arguments.collect();
        let [store, place, directory, lock] = arguments.as_slice() else {
            return Err("a worker of the recovery is started by it alone".to_string());
        };
        let lock = lock.parse::<u64>().map_err(|_| format!("'{lock}' is no number"))?;
        Ok(Self {
            store: Kind::parse(store)?,
            place: place.clone(),
            directory: PathBuf::from(directory),
            lock: (lock > 0).then(|| Duration::from_secs(lock)),
        })
    }
}

/// The options of a node: the default ones, with other locks of its work if the run has some.
pub(super) fn locks(lock: Option<Duration>) -> RuntimeOptions {
    let usual = RuntimeOptions::default();
    match lock {
        None => usual,
        Some(lock) => RuntimeOptions {
            orchestrator_lock_timeout: lock,
            orchestrator_lock_renewal_buffer: lock / 2,
            worker_lock_timeout: lock,
            worker_lock_renewal_buffer: lock / 2,
            ..usual
        },
    }
}

/// Runs until it is killed.
pub(crate) async fn run(orders: Orders) -> Result<bool, Failure> {
    let store = open(orders.store, &orders.place).await?;
    let begun = Begun::in_directory(&orders.directory);
    let (of_work, of_never) = (begun.clone(), begun);
    let activities = ActivityRegistry::builder()
        .register(WORKS, move |_: ActivityContext, _: String| {
            let begun = of_work.clone();
            async move {
                begun.note().map_err(|cause| cause.to_string())?;
                tokio::time::sleep(WORK).await;
                Ok(String::new())
            }
        })
        .register(NEVER, move |_: ActivityContext, _: String| {
            let begun = of_never.clone();
            async move {
                begun.note().map_err(|cause| cause.to_string())?;
                std::future::pending::<Result<String, String>>().await
            }
        })
        .build();
    let once = |activity: &'static str| {
        move |ctx: OrchestrationContext, _: String| async move { ctx.schedule_activity(activity, "").await }
    };
    let orchestrations = OrchestrationRegistry::builder()
        .register(WORKS, once(WORKS))
        .register(NEVER, once(NEVER))
        .register(CHAIN, |ctx: OrchestrationContext, _: String| async move {
            for _ in 0..STEPS {
                ctx.schedule_activity(WORKS, "").await?;
            }
            Ok(String::new())
        })
        .build();
    let _node = Runtime::start_with_options(store, activities, orchestrations, locks(orders.lock)).await;
    std::future::pending().await
}

/// A file with one byte for each activity that has begun.
#[derive(Debug, Clone)]
pub(super) struct Begun(PathBuf);

impl Begun {
    pub(super) fn in_directory(directory: &Path) -> Self {
        Self(directory.join("begun"))
    }

    /// Begins from nothing.
    pub(super) fn forget(&self) -> std::io::Result<()> {
        std::fs::write(&self.0, "")
    }

    pub(super) fn count(&self) -> Result<usize, Failure> {
        Ok(usize::try_from(std::fs::metadata(&self.0)?.len())?)
    }

    fn note(&self) -> std::io::Result<()> {
        OpenOptions::new().append(true).open(&self.0)?.write_all(b".")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_survive_the_command_line() {
        for lock in [None, Some(Duration::from_secs(4))] {
            for store in [Kind::Sqlite, Kind::Postgres] {
                let orders =
                    Orders { store, place: "sqlite:/x y".to_string(), directory: "/x y".into(), lock };
                assert_eq!(Orders::parse(orders.arguments().into_iter()), Ok(orders));
            }
        }
    }
}
