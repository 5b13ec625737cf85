//! The stored form of a work item: externally tagged, as the derived form is.
//!
//! A failure that carries the program's own error has the tag of a plain failure and more fields. A build that does not
//! know them reads the plain failure, so such a message may wait in any inbox.

use std::fmt;

use serde::de::value::EnumAccessDeserializer;
use serde::de::{DeserializeSeed, EnumAccess, IntoDeserializer, VariantAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{ErrorDetails, WorkItem};

impl Serialize for WorkItem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The derived function, which has the same name.
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for WorkItem {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_enum("WorkItem", &[], ItemVisitor)
    }
}

/// A failed activity, with or without an error of its own.
#[derive(Deserialize)]
struct ActivityFailure {
    instance: String,
    execution_id: u64,
    id: u64,
    details: ErrorDetails,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    panicked: bool,
}

impl From<ActivityFailure> for WorkItem {
    fn from(failure: ActivityFailure) -> Self {
        let ActivityFailure { instance, execution_id, id, details, error, panicked } = failure;
        match error {
            None => Self::ActivityFailed { instance, execution_id, id, details },
            Some(error) => Self::ActivityErrored { instance, execution_id, id, details, error, panicked },
        }
    }
}

/// A failed child, with or without an error of its own.
#[derive(Deserialize)]
struct ChildFailure {
    parent_instance: String,
    parent_execution_id: u64,
    parent_id: u64,
    details: ErrorDetails,
    #[serde(default)]
    error: Option<String>,
}

impl From<ChildFailure> for WorkItem {
    fn from(failure: ChildFailure) -> Self {
        let ChildFailure { parent_instance, parent_execution_id, parent_id, details, error } = failure;
        match error {
            None => Self::SubOrchFailed { parent_instance, parent_execution_id, parent_id, details },
            Some(error) => {
                Self::SubOrchErrored { parent_instance, parent_execution_id, parent_id, details, error }
            }
        }
    }
}

struct ItemVisitor;

impl<'de> Visitor<'de> for ItemVisitor {
    type Value = WorkItem;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("enum WorkItem")
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<WorkItem, A::Error> {
        let (tag, content) = data.variant::<String>()?;
        match tag.as_str() {
            "ActivityFailed" => Ok(content.newtype_variant::<ActivityFailure>()?.into()),
            "SubOrchFailed" => Ok(content.newtype_variant::<ChildFailure>()?.into()),
            // The derived function, which knows all other tags.
            _ => WorkItem::deserialize(EnumAccessDeserializer::new(Tagged { tag, content })),
        }
    }
}

/// An item whose tag has been read.
struct Tagged<V> {
    tag: String,
    content: V,
}

impl<'de, V: VariantAccess<'de>> EnumAccess<'de> for Tagged<V> {
    type Error = V::Error;
    type Variant = V;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, V), V::Error> {
        Ok((seed.deserialize(self.tag.into_deserializer())?, self.content))
    }
}
