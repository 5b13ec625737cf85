//! The pure rules of the stored model: codec, ids, error texts, versions, columns.

#[path = "model/bounces.rs"]
mod bounces;
#[path = "model/capabilities.rs"]
mod capabilities;
#[path = "model/codec.rs"]
mod codec;
#[path = "model/columns.rs"]
mod columns;
#[path = "model/error_texts.rs"]
mod error_texts;
#[path = "model/ids.rs"]
mod ids;
#[path = "model/retry.rs"]
mod retry;
#[path = "model/versions.rs"]
mod versions;
#[path = "model/work_item_forms.rs"]
mod work_item_forms;
