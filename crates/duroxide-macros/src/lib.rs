//! The attributes of duroxide. `duroxide` re-exports them with its feature `macros`, which is on by default.
//!
//! An attribute keeps the function as it is and adds an entry to the program's list of handlers. What is wrong with the
//! function is reported where it is wrong, with the remedy.
//!
//! | file | its job |
//! |---|---|
//! | `keys` | what is written in the attribute's parentheses |
//! | `shape` | whether the function can be a handler of the kind |
//! | `version` | whether a text is a version |
//! | `expand` | the function with its entry |
//! | `test_fn` | an async function as a test |

mod expand;
mod keys;
mod kind;
mod shape;
mod test_fn;
mod version;

use kind::Kind;
use proc_macro::TokenStream;

/// Makes an async function an activity: it gets its stored name and is registered when the program starts.
///
/// ```ignore
/// #[duroxide::activity]
/// async fn greet(_ctx: ActivityContext, name: String) -> Result<String> {
///     Ok(format!("Hello, {name}!"))
/// }
/// ```
///
/// | key | meaning |
/// |---|---|
/// | `name = "ChargeCard"` | the stored name; without it, the name of the function |
/// | `crate = path` | the path of duroxide, if the program has it under another name |
///
/// The function stays what it is: it can be called, tested and documented as any other. It stands in a module or in another
/// function, not in an `impl` block: the attribute does not see the block, so without a `self` parameter the error is the
/// compiler's own, about the items that the attribute adds.
#[proc_macro_attribute]
pub fn activity(keys: TokenStream, item: TokenStream) -> TokenStream {
    expand::handler(Kind::Activity, keys.into(), item.into()).into()
}

/// Makes an async function an orchestration: it gets its stored name and version and is registered when the program starts.
///
/// ```ignore
/// #[duroxide::orchestration(name = "Order", version = "2.0.0")]
/// async fn order(ctx: OrchestrationContext, order: Order) -> Result<Receipt> {
///     Ok(ctx.call(charge, order).await?)
/// }
/// ```
///
/// | key | meaning |
/// |---|---|
/// | `name = "Order"` | the stored name; without it, the name of the function |
/// | `version = "2.0.0"` | its version; without it, 1.0.0 |
/// | `on_cancel = "compensate"` | after a cancel the program may go on to undo what it did; needs `within` |
/// | `within = "10m"` | for how long: a number with `ms`, `s`, `m`, `h` or `d` |
/// | `crate = path` | the path of duroxide, if the program has it under another name |
///
/// Like an activity, it stands in a module or in another function, not in an `impl` block.
///
/// The attribute also denies `clippy::disallowed_methods`, `clippy::disallowed_types`, `clippy::disallowed_macros` and
/// `clippy::iter_over_hash_type` in the function's body, because a replay must take the same decisions. `clippy.toml` says
/// what is disallowed.
#[proc_macro_attribute]
pub fn orchestration(keys: TokenStream, item: TokenStream) -> TokenStream {
    expand::handler(Kind::Orchestration, keys.into(), item.into()).into()
}

/// Makes an async function that takes a `TestEnv` a test: in virtual time, on a store in memory, with all handlers that the
/// attributes of the program have registered. Needs the feature `testing` of duroxide.
///
/// ```ignore
/// #[duroxide::test]
/// async fn greets(env: TestEnv) -> Result<()> {
///     let run = env.start(hello, "hello-1", "world".to_string()).await?;
///     assert_eq!(run.result().await?, "Hello, world!");
///     Ok(())
/// }
/// ```
///
/// `crate = path` is the path of duroxide, if the program has it under another name. `#[ignore]` and `#[should_panic]` work as
/// on any test.
#[proc_macro_attribute]
pub fn test(keys: TokenStream, item: TokenStream) -> TokenStream {
    test_fn::expand(keys.into(), item.into()).into()
}
