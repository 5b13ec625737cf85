//! The store itself.

use std::time::Duration;

use duroxide::providers::{Inspection, OpenMode, StoreFacts, StoreSetting};
use duroxide::{backup_store, inspect_store, open_store_with};
use serde_json::json;

use crate::arguments::StoreVerb;
use crate::failure::{Exit, Failed, Outcome};
use crate::output::{Output, Record};
use crate::table::{Column, Listing, Row, column, whole};
use crate::when;

const SETTINGS: &[Column] = &[column("SETTING"), column("VALUE"), whole("RISK")];

/// How far the clocks of the store and of this machine may differ before times that are compared across them mislead.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(5);

pub(crate) async fn run(out: &Output, url: &str, verb: StoreVerb) -> Outcome {
    match verb {
        StoreVerb::Info => info(out, &inspect(url, Inspection::Settings).await?),
        StoreVerb::Migrate { create } => {
            let mode = if create { OpenMode::CreateOrMigrate } else { OpenMode::Migrate };
            let opened = Box::pin(open_store_with(url, mode)).await;
            drop(opened.map_err(|error| {
                let failed = Failed::new(Exit::Store, error.message.clone());
                if create {
                    failed
                } else {
                    failed.help("duroxide store info; --create creates a store that is missing")
                }
            })?);
            info(out, &inspect(url, Inspection::Settings).await?)
        }
        StoreVerb::Backup { to } => {
            backup_store(url, &to).await.map_err(|error| Failed::new(Exit::Store, error.message.clone()))?;
            let to = to.display().to_string();
            let json = json!({ "backup": to });
            out.record(&Record { id: to.clone(), fields: vec![("backup", to)], json })?;
            Ok(Exit::Done)
        }
        StoreVerb::Doctor => doctor(out, &inspect(url, Inspection::Pages).await?),
    }
}

async fn inspect(url: &str, closely: Inspection) -> Result<StoreFacts, Failed> {
    let facts = Box::pin(inspect_store(url, closely)).await;
    facts.map_err(|error| {
        Failed::new(Exit::Store, error.message.clone()).help("check --store, or duroxide config")
    })
}

fn info(out: &Output, facts: &StoreFacts) -> Outcome {
    let schema = facts.schema.map_or("none".to_string(), |schema| schema.to_string());
    let mut fields = vec![
        ("store", facts.store.to_string()),
        ("location", facts.location.clone()),
        ("schema", schema),
        ("schema of this build", facts.schema_of_build.to_string()),
    ];
    if let Some(size) = facts.size_bytes {
        fields.push(("bytes", size.to_string()));
    }
    let settings: serde_json::Map<String, serde_json::Value> =
        facts.settings.iter().map(|setting| (setting.name.clone(), json!(setting.value))).collect();
    let json = json!({
        "store": facts.store,
        "location": facts.location,
        "schema": facts.schema,
        "schema_of_build": facts.schema_of_build,
        "bytes": facts.size_bytes,
        "settings": settings,
    });
    out.record(&Record { id: facts.location.clone(), fields, json })?;
    if let Some(help) = schema_problem(facts) {
        Output::note(&help);
    }
    Ok(Exit::Done)
}

/// What is to be done about the schema, if anything.
fn schema_problem(facts: &StoreFacts) -> Option<String> {
    match facts.schema {
        None => Some("there is no store here yet: duroxide store migrate --create".to_string()),
        Some(schema) if schema < facts.schema_of_build => {
            Some("the schema is older than this build's: duroxide store migrate".to_string())
        }
        Some(schema) if schema > facts.schema_of_build => {
            Some("the schema is newer than this build's: use a newer duroxide".to_string())
        }
        Some(_) => None,
    }
}

fn doctor(out: &Output, facts: &StoreFacts) -> Outcome {
    let mut settings = facts.settings.clone();
    let schema = facts.schema.map_or("none".to_string(), |schema| schema.to_string());
    let schema = StoreSetting::safe("schema", schema);
    settings.insert(
        0,
        match schema_problem(facts) {
            Some(problem) => schema.with_risk(problem),
            None => schema,
        },
    );
    if let Some(now_ms) = facts.now_ms {
        let apart = Duration::from_millis(now_ms.abs_diff(when::now_ms()));
        let clock = StoreSetting::safe("clock", format!("{} from this machine's", when::span(apart)));
        settings.push(if apart > CLOCK_TOLERANCE {
            clock.with_risk(
                "times of the store and of this machine cannot be compared: synchronise the clocks",
            )
        } else {
            clock
        });
    }
    let rows = settings.iter().map(|setting| Row {
        id: setting.name.clone(),
        cells: vec![
            setting.name.clone(),
            setting.value.clone(),
            setting.risk.clone().unwrap_or_else(|| "ok".to_string()),
        ],
        json: json!({ "setting": setting.name, "value": setting.value, "risk": setting.risk }),
    });
    out.listing(&Listing { columns: SETTINGS, rows: rows.collect() })?;
    Ok(if settings.iter().any(|setting| setting.risk.is_some()) { Exit::No } else { Exit::Done })
}
