//! A process killed at random moments while orchestrations run; all of them finish.

use std::path::Path;
use std::time::{Duration, Instant};

use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};

use crate::audit::audit;
use crate::child;

const JOB: &str = "kill_loop::worker_process";
const KILLS: usize = 50;
const PER_KILL: usize = 10;

fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Step", |_ctx: ActivityContext, input: String| async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok(format!("{input}."))
        })
        .build()
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("FiveSteps", |ctx: OrchestrationContext, input: String| async move {
            let mut value = input;
            for _ in 0..5 {
                value = ctx.schedule_activity("Step", value).await?;
            }
            Ok(value)
        })
        .build()
}

/// The child: runs what the file holds until it is killed.
#[tokio::test(flavor = "multi_thread")]
async fn worker_process() {
    let Some(path) = child::store_of(JOB) else { return };
    let (provider, _client) = child::open(&path).await;
    let _runtime =
        Runtime::start_with_options(provider, activities(), orchestrations(), child::options()).await;
    std::future::pending::<()>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_kills_lose_nothing() {
    let directory = tempfile::tempdir().expect("a directory for the file");
    let path = directory.path().join("store.db");
    let (_provider, client) = child::open(&path).await;
    let seed = std::env::var("DUROXIDE_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let mut random = Random(seed.unwrap_or_else(|| u64::from(std::process::id())));
    println!("reproduce the moments of the kills with DUROXIDE_TEST_SEED={}", random.0);
    let mut deaths = 0;
    for round in 0..KILLS {
        for n in 0..PER_KILL {
            let instance = format!("i{}", round * PER_KILL + n);
            client.start_orchestration(instance, "FiveSteps", "x").await.expect("start");
        }
        deaths += usize::from(!live_and_die(&path, random.below(250)).await);
    }
    assert_eq!(deaths, KILLS, "every child ended with a non-zero status");
    let mut survivor = child::start(JOB, &path);
    for n in 0..KILLS * PER_KILL {
        let instance = format!("i{n}");
        let status = client.wait_for_orchestration(&instance, Duration::from_secs(120)).await;
        let status = status.unwrap_or_else(|error| panic!("{instance}: {error}"));
        let OrchestrationStatus::Completed { output, .. } = &status else { panic!("{instance}: {status:?}") };
        assert_eq!(output, "x.....");
        let history = client.read_execution_history(&instance, 1).await.expect("history");
        audit(&instance, &history);
    }
    survivor.kill().expect("the survivor runs");
    survivor.wait().expect("the survivor ends");
}

/// One life of the worker. Whether it ended with status zero.
async fn live_and_die(path: &Path, milliseconds: u64) -> bool {
    let mut child = child::start(JOB, path);
    let dies_at = Instant::now() + Duration::from_millis(30 + milliseconds);
    tokio::time::sleep_until(dies_at.into()).await;
    child.kill().expect("SIGKILL reaches the child");
    child.wait().expect("the child ends").success()
}

/// SplitMix64: enough to choose moments, and a printed seed repeats them.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (value ^ (value >> 31)) % limit
    }
}
