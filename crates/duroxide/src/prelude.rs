//! What a typed program uses: `use duroxide::prelude::*;`
//!
//! Each item has an example here. Functions in them get their stored names by an attribute or on the builder: see
//! [`Duroxide`].

/// The time of every timer, deadline and delay.
///
/// ```
/// use duroxide::prelude::*;
///
/// async fn reminder(ctx: OrchestrationContext, _input: ()) -> Result<()> {
///     ctx.sleep(Duration::from_secs(3 * 86_400)).await;
///     Ok(())
/// }
/// ```
#[doc(inline)]
pub use std::time::Duration;

/// ```
/// use duroxide::prelude::*;
///
/// let backoff = BackoffStrategy::Exponential {
///     base: Duration::from_millis(200),
///     multiplier: 2.0,
///     max: Duration::from_secs(10),
/// };
/// let policy = RetryPolicy::new(5).with_backoff(backoff);
/// assert_eq!(policy.delay_for_attempt(1), Duration::from_millis(200));
/// assert_eq!(policy.delay_for_attempt(3), Duration::from_millis(800));
/// ```
#[doc(inline)]
pub use duroxide_core::BackoffStrategy;

/// ```
/// use duroxide::prelude::*;
///
/// async fn render(_ctx: ActivityContext, scene: String) -> Result<String> {
///     Ok(format!("{scene}.png"))
/// }
///
/// async fn film(ctx: OrchestrationContext, scene: String) -> Result<String> {
///     let image = ctx
///         .call(render, scene)
///         .tag("gpu")
///         .start_to_close(Duration::from_secs(60))
///         .retry(RetryPolicy::new(3))
///         .total_timeout(Duration::from_secs(600))
///         .await?;
///     Ok(image)
/// }
/// ```
#[doc(inline)]
pub use duroxide_core::Call;

/// ```
/// use duroxide::prelude::*;
///
/// async fn charge(_ctx: ActivityContext, cents: u64) -> Result<String, String> {
///     if cents > 0 { Ok(format!("receipt for {cents}")) } else { Err("nothing to charge".to_string()) }
/// }
///
/// async fn order(ctx: OrchestrationContext, cents: u64) -> Result<String, CallError<String>> {
///     match ctx.call(charge, cents).start_to_close(Duration::from_secs(30)).await {
///         // The error that the activity returned, with its type.
///         Err(CallError::App(why)) => Ok(format!("not charged: {why}")),
///         Err(CallError::TimedOut { .. }) => Ok("the bank is slow".to_string()),
///         other => other,
///     }
/// }
/// ```
#[doc(inline)]
pub use duroxide_core::CallError;

/// ```
/// use duroxide::prelude::*;
///
/// async fn reserve(_ctx: ActivityContext, item: String) -> Result<String> {
///     Ok(item)
/// }
///
/// async fn release(_ctx: ActivityContext, item: String) -> Result<()> {
///     println!("{item} is free again");
///     Ok(())
/// }
///
/// /// Registered with `on_cancel = "compensate", within = "10m"`.
/// async fn order(ctx: OrchestrationContext, item: String) -> Result<String> {
///     let item = ctx.call(reserve, item).await?;
///     match ctx.cancellable(ctx.sleep(Duration::from_secs(86_400))).await {
///         Ok(()) => Ok(item),
///         Err(Cancelled { reason }) => {
///             ctx.call(release, item).await?;
///             Err(Failure::from(reason))
///         }
///     }
/// }
/// ```
#[doc(inline)]
pub use duroxide_core::Cancelled;

/// ```
/// use duroxide::prelude::*;
///
/// async fn ship(ctx: OrchestrationContext, order: String) -> Result<String> {
///     ctx.sleep(Duration::from_secs(3600)).await;
///     Ok(format!("parcel of {order}"))
/// }
///
/// async fn order(ctx: OrchestrationContext, order: String) -> Result<String> {
///     let id = format!("ship-{order}");
///     Ok(ctx.child(ship, order).with_id(id).await?)
/// }
/// ```
#[doc(inline)]
pub use duroxide_core::Child;

/// ```
/// use duroxide::prelude::*;
///
/// async fn first_of_two(ctx: OrchestrationContext, _input: ()) -> Result<&'static str> {
///     const GO: EventName<()> = EventName::new("go");
///     let go: DurableFuture<()> = ctx.wait(GO);
///     let later: DurableFuture<()> = ctx.sleep(Duration::from_secs(60));
///     // The other one is dropped, which cancels it.
///     Ok(if ctx.select2(go, later).await.is_first() { "told to go" } else { "a minute is over" })
/// }
/// ```
#[doc(inline)]
pub use duroxide_core::DurableFuture;

/// ```
/// use duroxide::prelude::*;
///
/// async fn approval(ctx: OrchestrationContext, _input: ()) -> Result<String> {
///     const APPROVED: EventName<String> = EventName::new("approved");
///     match ctx.timeout(Duration::from_secs(60), ctx.wait(APPROVED)).await {
///         Ok(by) => Ok(format!("approved by {by}")),
///         Err(Elapsed { limit }) => Ok(format!("not within {limit:?}")),
///     }
/// }
/// ```
#[doc(inline)]
pub use duroxide_core::Elapsed;

/// ```
/// use duroxide::prelude::*;
///
/// const APPROVED: EventName<bool> = EventName::new("approved");
///
/// async fn order(ctx: OrchestrationContext, _input: ()) -> Result<bool> {
///     Ok(ctx.wait(APPROVED).await)
/// }
///
/// async fn approve(app: &Duroxide) -> Result<()> {
///     let outcome = app.raise("order-42", APPROVED, &true).await?;
///     if outcome == SendOutcome::Delivered { Ok(()) } else { Err("order-42 does not run".into()) }
/// }
/// ```
#[doc(inline)]
pub use duroxide_core::EventName;

/// ```
/// use duroxide::prelude::*;
///
/// fn port(text: &str) -> Result<u16> {
///     // Any error, by `?`, and a text, by `into()`.
///     let port: u16 = text.parse()?;
///     if port > 1023 { Ok(port) } else { Err("that port is reserved".into()) }
/// }
///
/// assert_eq!(port("8080").expect("it is free"), 8080);
/// assert_eq!(port("80").expect_err("it is reserved").to_string(), "that port is reserved");
/// assert_eq!(port("many").expect_err("it is no number").message(), "invalid digit found in string");
/// ```
#[doc(inline)]
pub use duroxide_core::Failure;

/// ```
/// use duroxide::prelude::*;
///
/// const LIMIT: EventName<u64> = EventName::new("limit");
///
/// async fn watch(ctx: OrchestrationContext, mut limit: u64) -> Result<u64> {
///     match ctx.try_wait(LIMIT).await {
///         Ok(new) => limit = new,
///         Err(malformed) => ctx.logger().warn(format!("the limit stays {limit}: {malformed}")),
///     }
///     Ok(limit)
/// }
/// ```
#[doc(inline)]
pub use duroxide_core::MalformedPayload;

/// ```
/// use duroxide::prelude::*;
///
/// async fn greet(_ctx: ActivityContext, name: String) -> Result<String> {
///     Ok(format!("Hello, {name}!"))
/// }
///
/// async fn hello(ctx: OrchestrationContext, names: Vec<String>) -> Result<Vec<String>> {
///     let greetings = ctx.try_join_all(names.into_iter().map(|name| ctx.call(greet, name))).await?;
///     ctx.sleep(Duration::from_secs(60)).await;
///     ctx.logger().info(format!("{} greetings", greetings.len()));
///     Ok(greetings)
/// }
/// ```
#[doc(inline)]
pub use duroxide_core::OrchestrationContext;

/// ```
/// use duroxide::prelude::*;
///
/// const LINES: QueueName<String> = QueueName::new("lines");
///
/// async fn collect(ctx: OrchestrationContext, count: usize) -> Result<Vec<String>> {
///     let mut lines = Vec::new();
///     while lines.len() < count {
///         lines.push(ctx.dequeue(LINES).await);
///     }
///     Ok(lines)
/// }
///
/// async fn send(app: &Duroxide, line: &String) -> Result<()> {
///     let outcome = app.enqueue("collector", LINES, line).await?;
///     if outcome == SendOutcome::Delivered { Ok(()) } else { Err("the collector does not run".into()) }
/// }
/// ```
#[doc(inline)]
pub use duroxide_core::QueueName;

/// ```
/// use duroxide::prelude::*;
///
/// async fn charge(_ctx: ActivityContext, cents: u64) -> Result<String, String> {
///     Ok(format!("receipt for {cents}"))
/// }
///
/// async fn order(ctx: OrchestrationContext, cents: u64) -> Result<String> {
///     let policy = RetryPolicy::new(5).with_backoff(BackoffStrategy::Fixed { delay: Duration::from_secs(1) });
///     Ok(ctx.call(charge, cents).retry(policy).retry_if(|error: &String| error != "declined").await?)
/// }
/// ```
#[doc(inline)]
pub use duroxide_core::RetryPolicy;

/// ```
/// use duroxide::prelude::*;
///
/// async fn reserve(_ctx: ActivityContext, item: String) -> Result<String> {
///     Ok(item)
/// }
///
/// async fn release(_ctx: ActivityContext, item: String) -> Result<()> {
///     println!("{item} is free again");
///     Ok(())
/// }
///
/// async fn charge(_ctx: ActivityContext, _item: String) -> Result<()> {
///     Err("card declined".into())
/// }
///
/// async fn order(ctx: OrchestrationContext, item: String) -> Result<()> {
///     let mut saga = ctx.saga();
///     let item = saga.step(ctx.call(reserve, item), |item| ctx.call(release, item)).await?;
///     if let Err(error) = ctx.call(charge, item).await {
///         // What was reserved is released.
///         saga.compensate().await?;
///         return Err(error.into());
///     }
///     Ok(())
/// }
/// ```
#[doc(inline)]
pub use duroxide_core::Saga;

/// ```
/// use duroxide::prelude::*;
///
/// /// With an error of its own.
/// async fn parse(_ctx: ActivityContext, text: String) -> Result<u64, String> {
///     text.parse().map_err(|_| format!("'{text}' is no number"))
/// }
///
/// /// With any error: a [`Failure`].
/// async fn double(ctx: OrchestrationContext, text: String) -> Result<u64> {
///     Ok(ctx.call(parse, text).await? * 2)
/// }
/// ```
#[doc(inline)]
pub use crate::Result;

#[doc(inline)]
pub use crate::app::Duroxide;

/// ```
/// use duroxide::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// match Duroxide::open("sqlite:/no/such/directory/hello.db").await {
///     Err(OpenError::Store(error)) => eprintln!("the store does not open: {error}"),
///     Err(other) => eprintln!("{other}"),
///     Ok(_app) => unreachable!("there is no such directory"),
/// }
/// # }
/// ```
#[doc(inline)]
pub use crate::app::OpenError;

/// ```
/// use duroxide::prelude::*;
///
/// async fn order(ctx: OrchestrationContext, cents: u64) -> Result<u64> {
///     ctx.sleep(Duration::from_secs(60)).await;
///     Ok(cents)
/// }
///
/// async fn run(app: &Duroxide) -> Result<u64> {
///     let run = app.start(order, "order-42", 500).await?;
///     if !run.started() {
///         println!("{} was there before", run.id());
///     }
///     Ok(run.result().await?)
/// }
/// ```
#[doc(inline)]
pub use crate::app::Run;

/// ```
/// use duroxide::prelude::*;
///
/// async fn order(ctx: OrchestrationContext, cents: u64) -> Result<u64, String> {
///     ctx.sleep(Duration::from_secs(60)).await;
///     if cents > 0 { Ok(cents) } else { Err("nothing to pay".to_string()) }
/// }
///
/// async fn run(app: &Duroxide) -> Result<u64> {
///     match app.start(order, "order-42", 0).await?.result_within(Duration::from_secs(10)).await {
///         Err(RunError::Call(CallError::App(why))) => Err(why.into()),
///         Err(RunError::NotEnded { instance, .. }) => Err(format!("{instance} takes long").into()),
///         other => Ok(other?),
///     }
/// }
/// ```
#[doc(inline)]
pub use crate::app::RunError;

/// ```
/// use duroxide::prelude::*;
///
/// async fn order(_ctx: OrchestrationContext, cents: u64) -> Result<u64> {
///     Ok(cents)
/// }
///
/// async fn start(app: &Duroxide) -> Result<Run<u64, Failure>> {
///     match app.start(order, "order-42", 500).await {
///         // The id belongs to another order: attach to it.
///         Err(StartError::Exists { .. }) => Ok(app.handle(order, "order-42")),
///         other => Ok(other?),
///     }
/// }
/// ```
#[doc(inline)]
pub use crate::app::StartError;

/// ```
/// use duroxide::prelude::*;
///
/// async fn cancel(app: &Duroxide) -> Result<&'static str> {
///     Ok(match app.client().cancel_instance_checked("order-42", "customer left").await? {
///         SendOutcome::Delivered => "it will end",
///         SendOutcome::Kept => "it is not there yet, and will end when it is",
///         SendOutcome::NotFound => "there is no such order",
///         SendOutcome::Ended => "it has ended",
///     })
/// }
/// ```
#[doc(inline)]
pub use crate::providers::SendOutcome;

/// ```
/// use duroxide::prelude::*;
///
/// struct Bank {
///     url: String,
/// }
///
/// /// Runs at least once: the key is the same at every attempt, so that the bank can tell.
/// async fn charge(ctx: ActivityContext, cents: u64) -> Result<String> {
///     let bank = ctx.state::<Bank>();
///     let key = ctx.idempotency_key();
///     Ok(format!("{cents} cents at {} as request {key}, attempt {}", bank.url, ctx.attempt()))
/// }
/// ```
#[doc(inline)]
pub use crate::runtime::ActivityContext;

/// ```
/// use duroxide::prelude::*;
///
/// # async fn run() -> Result<()> {
/// let options = RuntimeOptions { worker_concurrency: 64, max_attempts: 5, ..RuntimeOptions::default() };
/// let app = Duroxide::builder("sqlite:orders.db").options(options).start().await?;
/// # app.shutdown().await
/// # }
/// ```
#[doc(inline)]
pub use crate::runtime::RuntimeOptions;

#[doc(inline)]
#[cfg(feature = "testing")]
pub use crate::testing::TestEnv;

/// ```
/// use duroxide::prelude::*;
/// use duroxide::testing::run_test_with;
///
/// async fn order(ctx: OrchestrationContext, cents: u64) -> Result<u64> {
///     ctx.sleep(Duration::from_secs(86_400)).await;
///     Ok(cents)
/// }
///
/// run_test_with(TestEnv::builder().orchestration("order", order), |env| async move {
///     let run = env.start(order, "order-1", 500).await.expect("a new id");
///     assert_eq!(run.result().await.expect("a day passes at once"), 500);
///     run.assert_replays();
/// });
/// ```
#[doc(inline)]
#[cfg(feature = "testing")]
pub use crate::testing::TestRun;
