//! Registries and their builders.

use std::sync::Arc;

use duroxide::OrchestrationHandler;
use duroxide::runtime::registry::{
    ActivityHandler, ActivityRegistry, ActivityRegistryBuilder, OrchestrationRegistry,
    OrchestrationRegistryBuilder, VersionPolicy,
};
use duroxide::{ActivityContext, OrchestrationContext};
use semver::Version;

use crate::notation::{
    ActivityFn, ActivityTypedFn, In, OrchestrationFn, OrchestrationTypedFn, Out, RS, S, Words, methods,
    panic_of, says, traits, variants,
};

pub(crate) fn checked() -> Vec<&'static str> {
    [orchestrations(), activities(), texts(), versions_of_activities()].concat()
}

fn orchestrations() -> Vec<&'static str> {
    [
        methods!(OrchestrationRegistry {
            fn builder() -> OrchestrationRegistryBuilder;
            fn builder_from(&OrchestrationRegistry) -> OrchestrationRegistryBuilder;
            fn resolve_handler(&self, &str) -> Option<(Version, Arc<dyn OrchestrationHandler>)>;
            fn resolve_handler_exact(&self, &str, &Version) -> Option<Arc<dyn OrchestrationHandler>>;
            fn resolve_version(&self, &str) -> Option<Version>;
            fn list_names(&self) -> Vec<String>;
            fn list_versions(&self, &str) -> Vec<Version>;
            fn has(&self, &str) -> bool;
            fn count(&self) -> usize;
            fn set_version_policy(&self, &str, VersionPolicy);
        }),
        methods!(OrchestrationRegistryBuilder {
            fn register(self, S, OrchestrationFn) -> OrchestrationRegistryBuilder;
            fn register_typed<In, Out, _, _>(self, S, OrchestrationTypedFn) -> OrchestrationRegistryBuilder;
            fn register_versioned(self, S, Words, OrchestrationFn) -> OrchestrationRegistryBuilder;
            fn register_versioned_typed<In, Out, _, _>(self, S, Words, OrchestrationTypedFn)
                -> OrchestrationRegistryBuilder;
            fn register_all(self, Vec<(&str, OrchestrationFn)>) -> OrchestrationRegistryBuilder;
            fn merge(self, OrchestrationRegistry) -> OrchestrationRegistryBuilder;
            fn set_policy(self, S, VersionPolicy) -> OrchestrationRegistryBuilder;
            fn build(self) -> OrchestrationRegistry;
            fn build_result(self) -> Result<OrchestrationRegistry, String>;
        }),
        variants!(closed VersionPolicy { Latest, Exact(Version) }),
        traits! {
            OrchestrationRegistry: Clone, Default, Send, Sync;
        },
    ]
    .concat()
}

fn activities() -> Vec<&'static str> {
    [
        methods!(ActivityRegistry {
            fn builder() -> ActivityRegistryBuilder;
            fn builder_from(&ActivityRegistry) -> ActivityRegistryBuilder;
            fn resolve_handler(&self, &str) -> Option<(Version, Arc<dyn ActivityHandler>)>;
            fn list_names(&self) -> Vec<String>;
            fn list_versions(&self, &str) -> Vec<Version>;
            fn has(&self, &str) -> bool;
            fn count(&self) -> usize;
        }),
        methods!(ActivityRegistryBuilder {
            fn from_registry(&ActivityRegistry) -> ActivityRegistryBuilder;
            fn register(self, S, ActivityFn) -> ActivityRegistryBuilder;
            fn register_typed<In, Out, _, _>(self, S, ActivityTypedFn) -> ActivityRegistryBuilder;
            fn register_all(self, Vec<(&str, ActivityFn)>) -> ActivityRegistryBuilder;
            fn merge(self, ActivityRegistry) -> ActivityRegistryBuilder;
            fn build(self) -> ActivityRegistry;
            fn build_result(self) -> Result<ActivityRegistry, String>;
        }),
        methods!(dyn ActivityHandler {
            async fn invoke(&self, ActivityContext, String) -> RS;
        }),
        traits! {
            ActivityRegistry: Clone, Default, Send, Sync;
        },
    ]
    .concat()
}

async fn program(_ctx: OrchestrationContext, input: String) -> RS {
    Ok(input)
}

async fn work(_ctx: ActivityContext, input: String) -> RS {
    Ok(input)
}

/// What the mistakes of a registration say.
fn texts() -> Vec<&'static str> {
    let one = || OrchestrationRegistry::builder().register("O", program);
    let act = || ActivityRegistry::builder().register("A", work);
    let twice = one().register("O", program).build_result().expect_err("a mistake");
    let merged = one().merge(one().build()).build_result().expect_err("a mistake");
    let twice_each = one().register("O", program).merge(one().build()).build_result().expect_err("a mistake");
    let act_twice = act().register("A", work).build_result().expect_err("a mistake");
    let act_merged = act().merge(act().build()).build_result().expect_err("a mistake");
    let reserved = ActivityRegistry::builder()
        .register("__duroxide_syscall:x", work)
        .build_result()
        .expect_err("a mistake");
    let by_build = panic_of(|| one().register("O", program).build());
    let earlier = panic_of(|| one().register_versioned("O", "0.9.0", program));
    let no_version = panic_of(|| one().register_versioned("O", "two", program));
    vec![
        says(
            "text: duplicate orchestration registration: n@v",
            &twice,
            "duplicate orchestration registration: O@1.0.0",
        ),
        says("text: duplicate activity registration: ..", &act_twice, "duplicate activity registration: A"),
        says(
            "text: duplicate orchestration in merge: n@v",
            &merged,
            "duplicate orchestration in merge: O@1.0.0",
        ),
        says("text: duplicate activity in merge: n@v", &act_merged, "duplicate activity in merge: A@1.0.0"),
        says("errors are joined by \"; \"", &twice_each, "O@1.0.0; duplicate"),
        says("build() panics with the errors", &by_build, "duplicate orchestration registration: O@1.0.0"),
        says("text: non-monotonic orchestration version", &earlier, "non-monotonic orchestration version"),
        says("register_versioned panics on invalid semver", &no_version, "'two' is not valid semver"),
        says("text: an activity with a reserved name names the prefix", &reserved, "'__duroxide_syscall:'"),
        says("text: uses reserved prefix", &reserved, "uses reserved prefix"),
    ]
}

fn versions_of_activities() -> Vec<&'static str> {
    let registry = ActivityRegistry::builder().register("A", work).build();
    let first = Version::new(1, 0, 0);
    assert_eq!(registry.list_versions("A"), std::slice::from_ref(&first));
    assert_eq!(registry.list_versions("B"), []);
    assert_eq!(registry.resolve_handler("A").map(|(version, _)| version), Some(first.clone()));
    assert!(registry.resolve_handler("B").is_none());
    let orchestrations = OrchestrationRegistry::builder().register("O", program).build();
    assert_eq!(orchestrations.resolve_version("O"), Some(first));
    let clone = orchestrations.clone();
    clone.set_version_policy("O", VersionPolicy::Exact(Version::new(2, 0, 0)));
    assert_eq!(orchestrations.resolve_version("O"), None);
    vec!["the default version is 1.0.0", "activities have version 1.0.0 each", "clones share the policy"]
}
