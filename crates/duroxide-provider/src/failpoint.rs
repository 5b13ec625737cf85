//! Points at which a test can end the process, to see that nothing acknowledged is lost. Without the feature
//! `test-hooks` they are nothing.
//!
//! `DUROXIDE_FAILPOINT=site:n` aborts the process when it comes to `site` for the `n`th time.

/// The environment variable that names the site and the hit.
pub const VARIABLE: &str = "DUROXIDE_FAILPOINT";

/// Comes by this site.
#[cfg(not(feature = "test-hooks"))]
#[inline]
pub fn pass(_site: &'static str) {}

/// Comes by this site.
#[cfg(feature = "test-hooks")]
pub fn pass(site: &'static str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static PLAN: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static HITS: AtomicU64 = AtomicU64::new(0);
    let plan = PLAN.get_or_init(|| std::env::var(VARIABLE).ok().as_deref().and_then(parse));
    let Some((planned, nth)) = plan else { return };
    if planned == site && HITS.fetch_add(1, Ordering::SeqCst) + 1 == *nth {
        // No unwinding, no destructors, no flushing: as if the machine had taken the process away.
        std::process::abort();
    }
}

#[cfg(feature = "test-hooks")]
fn parse(plan: &str) -> Option<(String, u64)> {
    let (site, nth) = plan.rsplit_once(':')?;
    Some((site.to_string(), nth.parse().ok()?))
}
