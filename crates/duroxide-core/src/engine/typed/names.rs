//! Which stored name a function has on this node.
//!
//! A function is found by its type: each function has one of its own. Its path in the source plays no part, so that it can be
//! moved and renamed while its stored name stays.

use std::any::{TypeId, type_name};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// The stored name of a function, and the version of an orchestration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionName {
    /// The name under which it stands in histories.
    pub name: Arc<str>,
    /// The version that calls by function ask for; `None` for activities.
    pub version: Option<Arc<str>>,
}

/// The functions of a program that can be called by themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FunctionNames {
    activities: BTreeMap<TypeId, FunctionName>,
    orchestrations: BTreeMap<TypeId, FunctionName>,
}

/// A function was given two names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{function} is named twice, '{first}' and '{second}': give a function one name")]
pub struct NamedTwice {
    /// The function's path.
    pub function: &'static str,
    /// The name that it had.
    pub first: String,
    /// The name that it was given besides.
    pub second: String,
}

impl FunctionNames {
    /// Names an activity.
    pub fn name_activity<F: 'static>(&mut self, name: &str) -> Result<(), NamedTwice> {
        add::<F>(&mut self.activities, name, None)
    }

    /// Names an orchestration of a version.
    pub fn name_orchestration<F: 'static>(&mut self, name: &str, version: &str) -> Result<(), NamedTwice> {
        add::<F>(&mut self.orchestrations, name, Some(version))
    }

    /// The names of all activities.
    pub fn activities(&self) -> impl Iterator<Item = &FunctionName> {
        self.activities.values()
    }

    /// The names of all orchestrations.
    pub fn orchestrations(&self) -> impl Iterator<Item = &FunctionName> {
        self.orchestrations.values()
    }

    /// The name of an activity.
    pub fn activity<F: 'static>(&self) -> Option<&FunctionName> {
        self.activities.get(&TypeId::of::<F>())
    }

    /// The name of an orchestration.
    pub fn orchestration<F: 'static>(&self) -> Option<&FunctionName> {
        self.orchestrations.get(&TypeId::of::<F>())
    }
}

fn add<F: 'static>(
    names: &mut BTreeMap<TypeId, FunctionName>,
    name: &str,
    version: Option<&str>,
) -> Result<(), NamedTwice> {
    let named = FunctionName { name: name.into(), version: version.map(Into::into) };
    match names.entry(TypeId::of::<F>()) {
        Entry::Vacant(vacant) => {
            vacant.insert(named);
            Ok(())
        }
        Entry::Occupied(before) if *before.get() == named => Ok(()),
        Entry::Occupied(before) => Err(NamedTwice {
            function: type_name::<F>(),
            first: displayed(before.get()),
            second: displayed(&named),
        }),
    }
}

fn displayed(named: &FunctionName) -> String {
    let version = named.version.as_ref().map(|version| format!("@{version}")).unwrap_or_default();
    format!("{}{version}", named.name)
}

/// What a call of an activity without a name says.
pub fn unnamed_activity<F>() -> String {
    let function = type_name::<F>();
    format!(
        "{function} has no name on this node: put #[duroxide::activity] on it, or name it with \
         .activity(\"Name\", function) or .declare_activity(\"Name\", function) on the builder"
    )
}

/// What a call of an orchestration without a name says.
pub fn unnamed_orchestration<F>() -> String {
    let function = type_name::<F>();
    format!(
        "{function} has no name on this node: put #[duroxide::orchestration] on it, or name it with \
         .orchestration(\"Name\", function) or .declare_orchestration(\"Name\", function) on the builder"
    )
}
