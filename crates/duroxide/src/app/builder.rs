//! What a program registers, and its start.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use duroxide_core::{
    AppError, CancelPolicy, CapabilityRouting, FunctionNames, NamedTwice, OrchestrationContext, check_version,
};
use serde::{Serialize, de::DeserializeOwned};

use super::activity_fn::ActivityFn;
use super::orchestration_fn::{Naming, OrchestrationFn};
use super::shared::{Shared, SharedCell, States};
use super::{Duroxide, Handlers, OpenError, discovered, functions};
use crate::client::Client;
use crate::open_store;
use crate::providers::Provider;
use crate::runtime::registry::{
    ActivityRegistry, ActivityRegistryBuilder, OrchestrationRegistry, OrchestrationRegistryBuilder,
};
use crate::runtime::{
    ActivityContext, ForeignWakes, OnNondeterminism, Runtime, RuntimeOptions, VerifyReplay,
};

/// The version of an orchestration that is registered without one.
const DEFAULT_VERSION: &str = "1.0.0";

/// What a program registers.
#[must_use = "a builder starts nothing before `.start().await`"]
pub struct Builder {
    source: Source,
    activities: ActivityRegistryBuilder,
    orchestrations: OrchestrationRegistryBuilder,
    names: FunctionNames,
    states: States,
    cancel_policies: BTreeMap<TypeId, CancelPolicy>,
    shared: SharedCell,
    discover: bool,
    options: RuntimeOptions,
    routing: Option<CapabilityRouting>,
    on_nondeterminism: Option<OnNondeterminism>,
    foreign_wakes: Option<ForeignWakes>,
    verify_replay: Option<VerifyReplay>,
    problems: Vec<String>,
}

enum Source {
    Url(String),
    Store(Arc<dyn Provider>),
}

impl Builder {
    pub(super) fn new(url: String) -> Self {
        Self::on(Source::Url(url))
    }

    /// A program on a store that is open.
    pub fn on_store(store: Arc<dyn Provider>) -> Self {
        Self::on(Source::Store(store))
    }

    fn on(source: Source) -> Self {
        Self {
            source,
            activities: ActivityRegistry::builder(),
            orchestrations: OrchestrationRegistry::builder(),
            names: FunctionNames::default(),
            states: States::default(),
            cancel_policies: BTreeMap::new(),
            shared: Arc::new(OnceLock::new()),
            discover: true,
            options: RuntimeOptions::default(),
            routing: None,
            on_nondeterminism: None,
            foreign_wakes: None,
            verify_replay: None,
            problems: Vec::new(),
        }
    }

    /// Registers an activity under its stored name.
    pub fn activity<F, In, Out, E, Fut>(self, name: &str, function: F) -> Self
    where
        F: Fn(ActivityContext, In) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Out, E>> + Send + 'static,
        In: DeserializeOwned + Send + 'static,
        Out: Serialize + Send + 'static,
        E: AppError,
    {
        let mut named = self.name_activity::<F>(name);
        let handler = ActivityFn { function, shared: named.shared.clone(), types: PhantomData };
        named.activities = named.activities.register_handler(name, Arc::new(handler));
        named
    }

    /// Names an activity that this node calls and others run.
    pub fn declare_activity<F, In, Out, E, Fut>(self, name: &str, function: F) -> Self
    where
        F: Fn(ActivityContext, In) -> Fut + 'static,
        Fut: Future<Output = Result<Out, E>>,
    {
        drop(function);
        let mut named = self.name_activity::<F>(name);
        named.problems.extend(functions::check_declared("activity", name).err());
        named
    }

    /// Registers version 1.0.0 of an orchestration under its stored name.
    pub fn orchestration<F, In, Out, E, Fut>(self, name: &str, function: F) -> Self
    where
        F: Fn(OrchestrationContext, In) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Out, E>> + Send + 'static,
        In: DeserializeOwned + Send + 'static,
        Out: Serialize + Send + 'static,
        E: AppError,
    {
        self.orchestration_versioned(name, DEFAULT_VERSION, function)
    }

    /// Registers one version of an orchestration under its stored name.
    pub fn orchestration_versioned<F, In, Out, E, Fut>(self, name: &str, version: &str, function: F) -> Self
    where
        F: Fn(OrchestrationContext, In) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Out, E>> + Send + 'static,
        In: DeserializeOwned + Send + 'static,
        Out: Serialize + Send + 'static,
        E: AppError,
    {
        let mut named = self.name_orchestration::<F>(name, version);
        let handler = OrchestrationFn { function, shared: named.shared.clone(), types: PhantomData };
        if let Ok(version) = check_version(version) {
            let handler = Arc::new(handler);
            named.orchestrations = named.orchestrations.register_handler(name, version, handler);
        }
        named
    }

    /// Lets executions of an orchestration go on after a cancel, to undo what they did: what
    /// [`OrchestrationContext::cancellable`] runs is dropped, and the program goes on for so long at most.
    pub fn compensate_on_cancel<F, In, Out, E, Fut>(mut self, function: F, within: Duration) -> Self
    where
        F: Fn(OrchestrationContext, In) -> Fut + 'static,
        Fut: Future<Output = Result<Out, E>>,
    {
        drop(function);
        if within.is_zero() {
            let function = std::any::type_name::<F>();
            self.problems.push(format!("compensate_on_cancel of {function} needs a time longer than zero"));
        }
        self.cancel_policies.insert(TypeId::of::<F>(), CancelPolicy { compensate_within: within });
        self
    }

    /// Names version 1.0.0 of an orchestration that this node calls and others run.
    pub fn declare_orchestration<F, In, Out, E, Fut>(self, name: &str, function: F) -> Self
    where
        F: Fn(OrchestrationContext, In) -> Fut + 'static,
        Fut: Future<Output = Result<Out, E>>,
    {
        self.declare_orchestration_versioned(name, DEFAULT_VERSION, function)
    }

    /// Names one version of an orchestration that this node calls and others run.
    pub fn declare_orchestration_versioned<F, In, Out, E, Fut>(
        self,
        name: &str,
        version: &str,
        function: F,
    ) -> Self
    where
        F: Fn(OrchestrationContext, In) -> Fut + 'static,
        Fut: Future<Output = Result<Out, E>>,
    {
        drop(function);
        let mut named = self.name_orchestration::<F>(name, version);
        named.problems.extend(functions::check_declared("orchestration", name).err());
        named
    }

    /// Registers handlers of the text-based API besides.
    pub fn registries(
        mut self,
        activities: ActivityRegistry,
        orchestrations: &OrchestrationRegistry,
    ) -> Self {
        self.activities = self.activities.merge(activities);
        for name in orchestrations.list_names() {
            for version in orchestrations.list_versions(&name) {
                if let Some(handler) = orchestrations.resolve_handler_exact(&name, &version) {
                    let handler = Arc::new(Naming { handler, shared: self.shared.clone() });
                    self.orchestrations =
                        self.orchestrations.register_handler(name.clone(), version, handler);
                }
            }
        }
        self
    }

    /// A value that activities reach with [`ActivityContext::state`], by its type.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        if !self.states.add(value) {
            let state = std::any::type_name::<T>();
            self.problems
                .push(format!("there are two states of type {state}: wrap one in a type of its own"));
        }
        self
    }

    /// Whether the handlers that attributes have entered into the program's list are registered. They are by default.
    pub fn discover(self, discover: bool) -> Self {
        Self { discover, ..self }
    }

    /// How the runtime behaves.
    ///
    /// Fields for which a new program has another default than the text-based API keep that: see
    /// [`Self::capability_routing`], [`Self::on_nondeterminism`], [`Self::foreign_wakes`] and [`Self::verify_replay`].
    pub fn options(self, options: RuntimeOptions) -> Self {
        Self { options, ..self }
    }

    /// How the node chooses what it fetches. [`CapabilityRouting::Handlers`] by default: it gets only what it can run.
    pub fn capability_routing(self, routing: CapabilityRouting) -> Self {
        Self { routing: Some(routing), ..self }
    }

    /// What happens to an execution whose history does not fit the code here. [`OnNondeterminism::HandBack`] by default: a
    /// node with other code may fit.
    pub fn on_nondeterminism(self, what: OnNondeterminism) -> Self {
        Self { on_nondeterminism: Some(what), ..self }
    }

    /// What happens to a program that something other than a durable future wakes. [`ForeignWakes::Fail`] by default.
    pub fn foreign_wakes(self, what: ForeignWakes) -> Self {
        Self { foreign_wakes: Some(what), ..self }
    }

    /// Whether every turn is replayed after it ran. [`VerifyReplay::Debug`] by default.
    pub fn verify_replay(self, when: VerifyReplay) -> Self {
        Self { verify_replay: Some(when), ..self }
    }

    /// Opens the store and runs the handlers.
    pub async fn start(mut self) -> Result<Duroxide, OpenError> {
        let source = self.take_source();
        let Handlers { activities, orchestrations, names, options, .. } = self.handlers()?;
        let store = source.open().await?;
        let client = Client::new(store.clone());
        let runtime = Runtime::start_with_options(store, activities, orchestrations, options).await;
        Ok(Duroxide { client, runtime: Some(runtime), names })
    }

    /// Opens the store and runs nothing.
    pub async fn client_only(mut self) -> Result<Duroxide, OpenError> {
        let source = self.take_source();
        let handlers = self.handlers()?;
        Ok(handlers.client(source.open().await?))
    }

    fn take_source(&mut self) -> Source {
        std::mem::replace(&mut self.source, Source::Url(String::new()))
    }

    /// Registers the handlers of the program's list now, unless [`Self::discover`] has said otherwise. Their names are known
    /// from here on.
    pub fn with_discovered(mut self) -> Self {
        if std::mem::take(&mut self.discover) {
            self = discovered::all().into_iter().fold(self, |builder, entry| (entry.register)(builder));
        }
        self
    }

    /// The functions that have a name so far.
    pub fn names(&self) -> &FunctionNames {
        &self.names
    }

    /// The handlers, without opening the store.
    pub fn handlers(self) -> Result<Handlers, OpenError> {
        let mut built = self.with_discovered();
        let mut problems = std::mem::take(&mut built.problems);
        let activities = built.activities.build_result().map_err(|problem| problems.push(problem)).ok();
        let orchestrations =
            built.orchestrations.build_result().map_err(|problem| problems.push(problem)).ok();
        let (Some(activities), Some(orchestrations), true) =
            (activities, orchestrations, problems.is_empty())
        else {
            return Err(OpenError::Handlers { problems });
        };
        let names = Arc::new(built.names);
        let states = Arc::new(built.states);
        // Handlers run only after this; a builder is started once.
        let unset = built.shared.set(Shared {
            names: names.clone(),
            states: states.clone(),
            cancel_policies: Arc::new(built.cancel_policies),
        });
        debug_assert!(unset.is_ok(), "a builder is built once");
        let options = RuntimeOptions {
            capability_routing: built.routing.unwrap_or(CapabilityRouting::Handlers),
            on_nondeterminism: built.on_nondeterminism.unwrap_or(OnNondeterminism::HandBack),
            foreign_wakes: built.foreign_wakes.unwrap_or(ForeignWakes::Fail),
            verify_replay: built.verify_replay.unwrap_or(VerifyReplay::Debug),
            ..built.options
        };
        Ok(Handlers { activities, orchestrations, names, options, states })
    }

    fn name_activity<F: 'static>(mut self, name: &str) -> Self {
        let named = self.names.name_activity::<F>(name);
        self.note(functions::check::<F>("activity", name), named);
        self
    }

    fn name_orchestration<F: 'static>(mut self, name: &str, version: &str) -> Self {
        let named = self.names.name_orchestration::<F>(name, version);
        self.note(functions::check::<F>("orchestration", name), named);
        if let Err(cause) = check_version(version) {
            self.problems.push(format!("orchestration '{name}': {cause}"));
        }
        self
    }

    fn note(&mut self, checked: Result<(), String>, named: Result<(), NamedTwice>) {
        self.problems.extend(checked.err());
        self.problems.extend(named.err().map(|twice| twice.to_string()));
    }
}

impl Source {
    async fn open(self) -> Result<Arc<dyn Provider>, OpenError> {
        match self {
            // Boxed, because connecting to a server is a large future.
            Self::Url(url) => Ok(Box::pin(open_store(&url)).await?),
            Self::Store(store) => Ok(store),
        }
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("names", &self.names)
            .field("problems", &self.problems)
            .finish_non_exhaustive()
    }
}
