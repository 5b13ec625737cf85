//! The values that an instance shows.

use std::collections::BTreeMap;

use serde_json::json;

use crate::arguments::KvVerb;
use crate::failure::{Exit, Failed, Outcome};
use crate::output::{Output, Record};
use crate::session::Session;
use crate::table::{Column, Listing, Row, column};

const VALUES: &[Column] = &[column("KEY"), column("VALUE")];

pub(crate) async fn run(out: &Output, session: &Session, verb: KvVerb) -> Outcome {
    match verb {
        KvVerb::List(one) => {
            session.info(&one.id).await?;
            let values: BTreeMap<_, _> =
                session.client.get_kv_all_values(&one.id).await?.into_iter().collect();
            if values.is_empty() {
                Output::note("the instance has no values");
            }
            let row = |(key, value): (String, String)| Row {
                id: key.clone(),
                json: json!({ "key": key, "value": value }),
                cells: vec![key, value],
            };
            out.listing(&Listing { columns: VALUES, rows: values.into_iter().map(row).collect() })?;
        }
        KvVerb::Get { id, key } => {
            session.info(&id).await?;
            let Some(value) = session.client.get_kv_value(&id, &key).await? else {
                let what = format!("instance '{id}' has no value for the key '{key}'");
                return Err(Failed::new(Exit::NotFound, what).help("duroxide kv list ID"));
            };
            let json = json!({ "key": key, "value": value });
            out.record(&Record { id: key.clone(), fields: vec![("key", key), ("value", value)], json })?;
        }
    }
    Ok(Exit::Done)
}
