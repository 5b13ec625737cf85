//! The notation in which the sections write the API down. Each macro makes the compiler check what it is given and
//! gives it back as lines, to be compared with `list.txt`.

use std::future::{Future, Ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, DurableFuture, OrchestrationContext};
use serde::{Deserialize, Serialize};

/// Anything that becomes a `String`. Only `impl Into<String>` accepts it.
pub(crate) struct S;

impl From<S> for String {
    fn from(_: S) -> Self {
        any()
    }
}

/// Anything that becomes a shared registry of activities.
pub(crate) struct Activities;

impl From<Activities> for Arc<ActivityRegistry> {
    fn from(_: Activities) -> Self {
        any()
    }
}

/// Anything that is read as text.
pub(crate) struct Words;

impl AsRef<str> for Words {
    fn as_ref(&self) -> &str {
        any()
    }
}

/// A typed input. It is neither `Clone` nor `Debug`: the API asks for no more than serde.
#[derive(Serialize, Deserialize)]
pub(crate) struct In;

/// A typed output.
#[derive(Serialize, Deserialize)]
pub(crate) struct Out;

pub(crate) type D = Duration;
pub(crate) type RS = Result<String, String>;
pub(crate) type Fut<T> = DurableFuture<T>;
pub(crate) type OrchestrationFn = fn(OrchestrationContext, String) -> Ready<RS>;
pub(crate) type OrchestrationTypedFn = fn(OrchestrationContext, In) -> Ready<Result<Out, String>>;
pub(crate) type ActivityFn = fn(ActivityContext, String) -> Ready<RS>;
pub(crate) type ActivityTypedFn = fn(ActivityContext, In) -> Ready<Result<Out, String>>;

/// A value of any type, in code that is compiled and never run.
pub(crate) fn any<T>() -> T {
    unreachable!("checks of signatures are compiled, not run")
}

pub(crate) fn exactly<T>(_: T) {}

pub(crate) fn resolves<T, F: Future<Output = T> + Send>(_: F) {}

/// Checks that a text says what the API fixes, and gives the item back for the list.
pub(crate) fn says(item: &'static str, actual: &str, expected: &str) -> &'static str {
    assert!(actual.contains(expected), "{item}: expected a text with '{expected}', got '{actual}'");
    item
}

/// The text with which `act` panics.
pub(crate) fn panic_of<T>(act: impl FnOnce() -> T) -> String {
    let payload = catch_unwind(AssertUnwindSafe(act)).err().expect("it panics");
    let text = payload.downcast_ref::<String>().cloned();
    text.or_else(|| payload.downcast_ref::<&str>().map(ToString::to_string)).expect("a panic with a text")
}

/// Methods and functions of a type. `async` stands for every future that may be sent to another thread.
macro_rules! methods {
    ($type:ty { $( $($word:ident)+ $(<$($generic:ty),+>)? ($($params:tt)*) $(-> $ret:ty)?; )+ }) => {{
        $( $crate::notation::method!(($type) [$($word)+] [$($($generic),+)?] [$($params)*] [$($ret)?]); )+
        vec![$(
            concat!(
                $crate::notation::method!(@kind $($word)+), stringify!($type), "::",
                $crate::notation::method!(@name $($word)+), $("<", stringify!($($generic),+), ">",)?
                "(", stringify!($($params)*), ")", $("->", stringify!($ret))?
            )
        ),+]
    }};
}

/// One method or function, called with values of exactly these types.
macro_rules! method {
    (@kind fn $name:ident) => { "" };
    (@kind async fn $name:ident) => { "async " };
    (@name fn $name:ident) => { stringify!($name) };
    (@name async fn $name:ident) => { stringify!($name) };
    (@returned) => { () };
    (@returned $ret:ty) => { $ret };
    (@check fn [$($ret:ty)?] $call:expr) => {
        $crate::notation::exactly::<$crate::notation::method!(@returned $($ret)?)>($call)
    };
    (@check async [$($ret:ty)?] $call:expr) => {
        $crate::notation::resolves::<$crate::notation::method!(@returned $($ret)?), _>($call)
    };
    (($type:ty) [fn $name:ident] $($rest:tt)*) => { $crate::notation::method!(@of fn ($type) $name $($rest)*); };
    (($type:ty) [async fn $name:ident] $($rest:tt)*) => {
        $crate::notation::method!(@of async ($type) $name $($rest)*);
    };
    (@of $kind:tt ($type:ty) $name:ident [$($generic:ty),*] [&self $(, $arg:ty)*] [$($ret:ty)?]) => {
        const _: fn(&$type) = |it| $crate::notation::method!(@check $kind [$($ret)?]
            <$type>::$name::<$($generic),*>(it $(, $crate::notation::any::<$arg>())*));
    };
    (@of $kind:tt ($type:ty) $name:ident [$($generic:ty),*] [self: Arc<Self> $(, $arg:ty)*] [$($ret:ty)?]) => {
        const _: fn(std::sync::Arc<$type>) = |it| $crate::notation::method!(@check $kind [$($ret)?]
            <$type>::$name::<$($generic),*>(it $(, $crate::notation::any::<$arg>())*));
    };
    (@of $kind:tt ($type:ty) $name:ident [$($generic:ty),*] [self $(, $arg:ty)*] [$($ret:ty)?]) => {
        const _: fn($type) = |it| $crate::notation::method!(@check $kind [$($ret)?]
            <$type>::$name::<$($generic),*>(it $(, $crate::notation::any::<$arg>())*));
    };
    (@of $kind:tt ($type:ty) $name:ident [$($generic:ty),*] [$($arg:ty),*] [$($ret:ty)?]) => {
        const _: fn() = || $crate::notation::method!(@check $kind [$($ret)?]
            <$type>::$name::<$($generic),*>($($crate::notation::any::<$arg>()),*));
    };
}

/// Fields of a struct. Users build it from exactly these; with `..` from these and its default; with `has` they
/// only read them.
macro_rules! fields {
    ($type:ident { $($field:ident: $ty:ty),+ $(,)? }) => {{
        const _: fn() -> $type = || $type { $($field: $crate::notation::any::<$ty>()),+ };
        vec![$(concat!(stringify!($type), ".", stringify!($field), ": ", stringify!($ty))),+]
    }};
    ($type:ident { $($field:ident: $ty:ty,)+ .. }) => {{
        const _: fn() -> $type = || $type { $($field: $crate::notation::any::<$ty>(),)+ ..Default::default() };
        vec![$(concat!(stringify!($type), ".", stringify!($field), ": ", stringify!($ty))),+]
    }};
    ($type:ident has { $($field:ident: $ty:ty),+ $(,)? }) => {{
        const _: fn($type) = |it| { $($crate::notation::exactly::<$ty>(it.$field);)+ };
        vec![$(concat!(stringify!($type), ".", stringify!($field), ": ", stringify!($ty))),+]
    }};
}

/// Variants of an enum. Users match a `closed` one without a wildcard.
macro_rules! variants {
    (closed $type:ident { $($variant:ident $({ $($field:ident: $ty:ty),+ $(,)? })? $(($inner:ty))?),+ $(,)? }) => {{
        const _: fn($type) = |it| match it { $($type::$variant { .. } => {})+ };
        $crate::notation::variants!(open $type { $($variant $({ $($field: $ty),+ })? $(($inner))?),+ })
    }};
    (open $type:ident { $($variant:ident $({ $($field:ident: $ty:ty),+ $(,)? })? $(($inner:ty))?),+ $(,)? }) => {{
        $(
            const _: fn() -> $type = || $type::$variant
                $({ $($field: $crate::notation::any::<$ty>()),+ })?
                $(($crate::notation::any::<$inner>()))?;
        )+
        vec![$(concat!(
            stringify!($type), "::", stringify!($variant),
            $("{", $(stringify!($field), ": ", stringify!($ty), ",",)+ "}",)?
            $("(", stringify!($inner), ")",)?
        )),+]
    }};
}

/// What the fields of a default value are.
macro_rules! defaults {
    ($type:ident { $($field:ident: $value:expr),+ $(,)? }) => {{
        let it = <$type>::default();
        $(assert_eq!(it.$field, $value, "the default of {}", stringify!($type.$field));)+
        vec![$(concat!(stringify!($type), "::default().", stringify!($field), " = ", stringify!($value))),+]
    }};
}

/// Constants, with their types and values.
macro_rules! constants {
    ($($($word:ident)::+ : $ty:ty = $value:expr;)+) => {{
        $(
            const _: $ty = $($word)::+;
            assert_eq!($($word)::+, $value, "{}", stringify!($($word)::+));
        )+
        vec![$(concat!(stringify!($($word)::+), ": ", stringify!($ty), " = ", stringify!($value))),+]
    }};
}

/// Paths under which an item can be imported.
macro_rules! paths {
    ($($($word:ident)::+;)+) => {{
        $(
            #[expect(unused_imports, reason = "that it can be imported is the check")]
            use $($word)::+ as _;
        )+
        vec![$(stringify!($($word)::+)),+]
    }};
}

/// Two paths to one type.
macro_rules! same {
    ($($one:ty = $other:ty;)+) => {{
        $(const _: fn($one) -> $other = |it| it;)+
        vec![$(concat!(stringify!($one), " = ", stringify!($other))),+]
    }};
}

/// Traits that a type has.
macro_rules! traits {
    ($($type:ty: $($bound:path),+;)+) => {{
        $($(
            const _: fn() = {
                fn has<T: $bound + ?Sized>() {}
                has::<$type>
            };
        )+)+
        vec![$($(concat!(stringify!($type), ": ", stringify!($bound))),+),+]
    }};
}

pub(crate) use {constants, defaults, fields, method, methods, paths, same, traits, variants};
