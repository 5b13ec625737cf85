//! The handlers that attributes have entered into the program's list.

use super::Builder;

/// An entry of the program's list of handlers. Attributes make them; a crate that is never named in the program's code is not
/// linked, and its handlers are not in the list: `use handlers as _;` names it.
#[derive(Debug, Clone, Copy)]
pub struct Discovered {
    /// Where the handler stands in the source.
    #[doc(hidden)]
    pub place: &'static str,
    /// Registers it.
    #[doc(hidden)]
    pub register: fn(Builder) -> Builder,
}

#[cfg(feature = "macros")]
inventory::collect!(Discovered);

/// All entries, in an order that does not depend on the linker.
pub(super) fn all() -> Vec<Discovered> {
    #[cfg(feature = "macros")]
    let mut all: Vec<Discovered> = inventory::iter::<Discovered>.into_iter().copied().collect();
    #[cfg(not(feature = "macros"))]
    let mut all: Vec<Discovered> = Vec::new();
    all.sort_by_key(|entry| entry.place);
    all
}
