//! The facade of a program: opening, registering, starting, and the handle of an instance.

use std::error::Error;
use std::sync::Arc;

use duroxide::providers::{Provider, ProviderError, SendOutcome};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{ForeignWakes, OnNondeterminism, Runtime, VerifyReplay};
use duroxide::{
    ActivityContext, Builder, CallError, CapabilityRouting, Client, ClientError, Duroxide, Event, EventName,
    Failure, FunctionNames, Handlers, OpenError, OrchestrationRegistry, OrchestrationStatus, QueueName,
    RecordedHistory, ReplayError, Run, RunError, RuntimeOptions, StartError,
};

use crate::notation::{
    ActivityTypedFn, D, In, OrchestrationTypedFn, Out, S, fields, methods, traits, variants,
};

pub(crate) fn checked() -> Vec<&'static str> {
    [app(), builder(), defaults(), run(), errors()].concat()
}

fn app() -> Vec<&'static str> {
    let mut items = methods!(Duroxide {
        async fn open(S) -> Result<Duroxide, OpenError>;
        fn builder(S) -> Builder;
        async fn client_only(S) -> Result<Duroxide, OpenError>;
        async fn start(&self, OrchestrationTypedFn, S, In) -> Result<Run<Out, String>, StartError>;
        async fn run(&self, OrchestrationTypedFn, S, In) -> Result<Out, RunError<String>>;
        fn handle(&self, OrchestrationTypedFn, S) -> Run<Out, String>;
        async fn raise(&self, S, EventName<In>, &In) -> Result<SendOutcome, ClientError>;
        async fn enqueue(&self, S, QueueName<In>, &In) -> Result<SendOutcome, ClientError>;
        fn client(&self) -> &Client;
        fn runtime(&self) -> Option<&Arc<Runtime>>;
        async fn run_until_signal(&self) -> Result<(), Failure>;
        async fn shutdown(&self) -> Result<(), Failure>;
    });
    items.extend(traits! {
        Duroxide: Clone, Send, Sync;
    });
    items
}

fn builder() -> Vec<&'static str> {
    let mut items = methods!(Builder {
        fn on_store(Arc<dyn Provider>) -> Builder;
        fn activity(self, &str, ActivityTypedFn) -> Builder;
        fn declare_activity(self, &str, ActivityTypedFn) -> Builder;
        fn orchestration(self, &str, OrchestrationTypedFn) -> Builder;
        fn orchestration_versioned(self, &str, &str, OrchestrationTypedFn) -> Builder;
        fn declare_orchestration(self, &str, OrchestrationTypedFn) -> Builder;
        fn declare_orchestration_versioned(self, &str, &str, OrchestrationTypedFn) -> Builder;
        fn compensate_on_cancel(self, OrchestrationTypedFn, D) -> Builder;
        fn registries(self, ActivityRegistry, &OrchestrationRegistry) -> Builder;
        fn state(self, Out) -> Builder;
        fn discover(self, bool) -> Builder;
        fn options(self, RuntimeOptions) -> Builder;
        fn capability_routing(self, CapabilityRouting) -> Builder;
        fn on_nondeterminism(self, OnNondeterminism) -> Builder;
        fn foreign_wakes(self, ForeignWakes) -> Builder;
        fn verify_replay(self, VerifyReplay) -> Builder;
        fn with_discovered(self) -> Builder;
        fn names(&self) -> &FunctionNames;
        fn handlers(self) -> Result<Handlers, OpenError>;
        async fn start(self) -> Result<Duroxide, OpenError>;
        async fn client_only(self) -> Result<Duroxide, OpenError>;
    });
    items.extend(fields!(Handlers has {
        activities: ActivityRegistry,
        orchestrations: OrchestrationRegistry,
        names: Arc<FunctionNames>,
        options: RuntimeOptions,
    }));
    items.extend(methods!(Handlers {
        fn replay(&self, &RecordedHistory) -> Result<(), ReplayError>;
        fn client(&self, Arc<dyn Provider>) -> Duroxide;
        fn with_states(&self, ActivityContext) -> ActivityContext;
    }));
    items
}

/// A new program has other defaults than the text style.
fn defaults() -> Vec<&'static str> {
    let store = Arc::new(duroxide::providers::memory::MemoryProvider::new());
    let handlers = Builder::on_store(store).discover(false).handlers().expect("nothing is wrong");
    let options = handlers.options;
    assert_eq!(options.capability_routing, CapabilityRouting::Handlers);
    assert_eq!(options.on_nondeterminism, OnNondeterminism::HandBack);
    assert_eq!(options.foreign_wakes, ForeignWakes::Fail);
    assert_eq!(options.verify_replay, VerifyReplay::Debug);
    vec![
        "Builder: capability_routing = CapabilityRouting::Handlers",
        "Builder: on_nondeterminism = OnNondeterminism::HandBack",
        "Builder: foreign_wakes = ForeignWakes::Fail",
        "Builder: verify_replay = VerifyReplay::Debug",
    ]
}

fn run() -> Vec<&'static str> {
    let mut items = methods!(Run<Out, String> {
        fn id(&self) -> &str;
        fn started(&self) -> bool;
        async fn status(&self) -> Result<OrchestrationStatus, ClientError>;
        async fn result(&self) -> Result<Out, RunError<String>>;
        async fn result_within(&self, D) -> Result<Out, RunError<String>>;
        async fn cancel(&self, S) -> Result<SendOutcome, ClientError>;
        async fn raise(&self, EventName<In>, &In) -> Result<SendOutcome, ClientError>;
        async fn enqueue(&self, QueueName<In>, &In) -> Result<SendOutcome, ClientError>;
        async fn history(&self) -> Result<Vec<Event>, ClientError>;
    });
    items.extend(traits! {
        Run<Out, String>: Clone, Send, Sync;
    });
    items
}

type RunErrorOfString = RunError<String>;

fn errors() -> Vec<&'static str> {
    [
        variants!(open OpenError { Handlers { problems: Vec<String> }, Store(ProviderError) }),
        variants!(open StartError {
            NotNamed { message: String },
            Exists { instance: String, existing: String, asked: String },
            Client(ClientError),
        }),
        variants!(open RunErrorOfString {
            Call(CallError<String>),
            Start(StartError),
            NotEnded { instance: String, waited: D },
            Stuck { instance: String, waits_for: String },
            NotFound { instance: String },
            Client(ClientError),
        }),
        methods!(RunErrorOfString {
            fn app(&self) -> Option<&String>;
        }),
        variants!(closed SendOutcome { Delivered, Kept, NotFound, Ended }),
        traits! {
            OpenError: Error, Clone, Send, Sync;
            StartError: Error, Clone, Send, Sync;
            RunErrorOfString: Error, Clone, Send, Sync, From<CallError<String>>, From<StartError>, From<ClientError>;
        },
    ]
    .concat()
}
