//! What a typed orchestration and a typed activity can do, and the errors that they see.

use std::error::Error;
use std::future::{Future, Ready};

use duroxide::{
    ActivityContext, Call, CallError, Cancellable, Cancelled, Child, CompensationFailed, ContinueAs, Elapsed,
    ErrorDetails, EventName, Failure, FailureKind, JoinAll, Logger, MalformedPayload, OrchestrationContext,
    QueueName, RetryPolicy, RunError, Saga, TryJoinAll,
};

use crate::notation::{
    ActivityTypedFn, D, Fut, In, OrchestrationTypedFn, Out, S, any, fields, methods, resolves, traits,
    variants,
};

pub(crate) fn checked() -> Vec<&'static str> {
    [context(), calls(), events(), many(), sagas(), logger(), call_errors(), failures(), small_errors()]
        .concat()
}

fn context() -> Vec<&'static str> {
    const _: fn(&OrchestrationContext) = |ctx| {
        resolves::<Result<u8, Elapsed>, _>(ctx.timeout(any::<D>(), any::<Ready<u8>>()));
    };
    let mut items = methods!(OrchestrationContext {
        fn call(&self, ActivityTypedFn, In) -> Call<Out, String>;
        fn child(&self, OrchestrationTypedFn, In) -> Child<Out, String>;
        fn start(&self, OrchestrationTypedFn, S, In);
        fn continue_as(&self, OrchestrationTypedFn, In) -> ContinueAs<Result<Out, String>>;
        fn wait(&self, EventName<Out>) -> Fut<Out>;
        fn try_wait(&self, EventName<Out>) -> Fut<Result<Out, MalformedPayload>>;
        fn dequeue(&self, QueueName<Out>) -> Fut<Out>;
        fn try_dequeue(&self, QueueName<Out>) -> Fut<Result<Out, MalformedPayload>>;
        fn sleep(&self, D) -> Fut<()>;
        fn join_all(&self, Vec<Ready<u8>>) -> JoinAll<Ready<u8>>;
        fn try_join_all(&self, Vec<Ready<Result<u8, u16>>>) -> TryJoinAll<Ready<Result<u8, u16>>>;
        fn saga(&self) -> Saga<'static>;
        fn cancellable(&self, Ready<u8>) -> Cancellable<Ready<u8>>;
        fn patched(&self, &str) -> bool;
        fn deprecate_patch(&self, &str);
        fn logger(&self) -> Logger;
    });
    items.push("async OrchestrationContext::timeout(&self, D, Ready<u8>) -> Result<u8, Elapsed>");
    items.extend(methods!(ActivityContext {
        fn state<Out>(&self) -> &Out;
    }));
    items
}

fn calls() -> Vec<&'static str> {
    let call = methods!(Call<Out, String> {
        fn retry(self, RetryPolicy) -> Call<Out, String>;
        fn retry_if(self, fn(&String) -> bool) -> Call<Out, String>;
        fn retry_timeouts(self) -> Call<Out, String>;
        fn tag(self, S) -> Call<Out, String>;
        fn session(self, S) -> Call<Out, String>;
        fn schedule_to_start(self, D) -> Call<Out, String>;
        fn start_to_close(self, D) -> Call<Out, String>;
        fn total_timeout(self, D) -> Call<Out, String>;
    });
    let child = methods!(Child<Out, String> {
        fn with_id(self, S) -> Child<Out, String>;
    });
    let futures = traits! {
        Call<Out, String>: Send, Unpin, Future<Output = Result<Out, CallError<String>>>;
        Child<Out, String>: Send, Unpin, Future<Output = Result<Out, CallError<String>>>;
        ContinueAs<u8>: Send, Future<Output = u8>;
    };
    [call, child, futures].concat()
}

fn events() -> Vec<&'static str> {
    const EVENT: EventName<Out> = EventName::new("approved");
    const QUEUE: QueueName<Out> = QueueName::new("lines");
    assert_eq!([EVENT.name(), QUEUE.name()], ["approved", "lines"]);
    let mut items = vec![
        "const EventName<Out>::new(&'static str) -> EventName<Out>",
        "const QueueName<Out>::new(&'static str) -> QueueName<Out>",
    ];
    items.extend(methods!(EventName<Out> {
        fn name(&self) -> &'static str;
    }));
    items.extend(methods!(QueueName<Out> {
        fn name(&self) -> &'static str;
    }));
    items.extend(traits! {
        EventName<Out>: Copy;
        QueueName<Out>: Copy;
    });
    items
}

fn many() -> Vec<&'static str> {
    traits! {
        JoinAll<Ready<u8>>: Future<Output = Vec<u8>>;
        TryJoinAll<Ready<Result<u8, u16>>>: Future<Output = Result<Vec<u8>, u16>>;
        Cancellable<Ready<u8>>: Future<Output = Result<u8, Cancelled>>;
    }
}

fn sagas() -> Vec<&'static str> {
    const _: fn(&mut Saga<'_>) = |saga| {
        let release: fn(u8) -> Call<Out, String> = any();
        resolves::<Result<u8, u16>, _>(saga.step(any::<Ready<Result<u8, u16>>>(), release));
        let undo: fn(u8) -> Child<Out, String> = any();
        resolves::<Result<u8, u16>, _>(saga.step(any::<Ready<Result<u8, u16>>>(), undo));
    };
    let mut items = vec![
        "async Saga::step(&mut self, Ready<Result<u8, u16>>, fn(u8) -> Call<Out, String>) -> Result<u8, u16>",
        "async Saga::step(&mut self, Ready<Result<u8, u16>>, fn(u8) -> Child<Out, String>) -> Result<u8, u16>",
    ];
    items.extend(methods!(Saga<'static> {
        async fn compensate(self) -> Result<(), CompensationFailed>;
    }));
    items.extend(fields!(CompensationFailed has { failures: Vec<Failure>, total: usize }));
    items
}

fn logger() -> Vec<&'static str> {
    methods!(Logger {
        fn error(&self, S);
        fn warn(&self, S);
        fn info(&self, S);
        fn debug(&self, S);
    })
}

type CallErrorOfString = CallError<String>;

fn call_errors() -> Vec<&'static str> {
    assert_eq!(CallErrorOfString::App("declined".to_string()).to_string(), "declined");
    let mut items = variants!(open CallErrorOfString {
        App(String),
        TimedOut { message: String },
        Cancelled { reason: String },
        Panicked { message: String },
        Poisoned { message: String },
        Other { message: String },
    });
    items.push("CallError::App displays as its inner error does");
    items.extend(methods!(CallErrorOfString {
        fn app(&self) -> Option<&String>;
        fn map_app(self, fn(String) -> u8) -> CallError<u8>;
        fn from_recorded(FailureKind, String, Option<&str>) -> CallErrorOfString;
        fn from_details(&ErrorDetails, Option<&str>) -> CallErrorOfString;
    }));
    items.extend(traits! {
        CallErrorOfString: Error, Clone, Send, Sync, serde::Serialize, serde::de::DeserializeOwned;
    });
    items
}

fn failures() -> Vec<&'static str> {
    let failure = Failure::from("out of stock");
    assert_eq!((failure.to_string().as_str(), failure.message()), ("out of stock", "out of stock"));
    assert_eq!(failure.causes().count(), 0);
    let mut items = vec!["Failure::causes(&self) -> impl Iterator<Item = &str>"];
    items.extend(methods!(Failure {
        fn message(&self) -> &str;
    }));
    items.extend(traits! {
        Failure: Clone, std::fmt::Debug, std::fmt::Display, serde::Serialize, serde::de::DeserializeOwned,
            std::ops::Deref<Target = dyn Error + Send + Sync>, From<String>, From<&'static str>,
            From<std::io::Error>, From<CallError<String>>, From<RunError<String>>;
    });
    items
}

fn small_errors() -> Vec<&'static str> {
    [
        fields!(Elapsed { limit: D }),
        fields!(Cancelled { reason: String }),
        traits! {
            Elapsed: Error;
            Cancelled: Error;
            MalformedPayload: Error;
            CompensationFailed: Error;
        },
    ]
    .concat()
}
