//! Whether everything that was scheduled is on its way, and putting back what is not.

use std::collections::BTreeSet;
use std::time::Duration;

use duroxide::{Finding, HealthOptions};
use serde_json::json;

use crate::arguments::{HealthVerb, Repair};
use crate::chosen::{ChosenBy, Selection, named};
use crate::confirm::{Consent, Go, confirm};
use crate::failure::{Exit, Failed, Outcome};
use crate::output::Output;
use crate::session::Session;
use crate::table::{Column, Listing, Row, column};
use crate::when;

const FINDINGS: &[Column] =
    &[column("FINDING"), column("COUNT"), column("AGE"), column("INSTANCE"), column("HELP")];
const REPAIRED: &[Column] = &[column("ID"), column("PUT BACK")];

pub(crate) async fn run(out: &Output, session: &Session, verb: HealthVerb) -> Outcome {
    match verb {
        HealthVerb::Check(check) => {
            let findings = findings(session, check.overdue_after).await?;
            out.listing(&Listing { columns: FINDINGS, rows: findings.iter().map(row).collect() })?;
            if findings.is_empty() {
                Output::note("nothing is wrong");
                return Ok(Exit::Done);
            }
            Ok(Exit::No)
        }
        HealthVerb::Repair(asked) => repair(out, session, asked).await,
    }
}

/// What is wrong, over all running instances.
async fn findings(session: &Session, overdue_after: Duration) -> Result<Vec<Finding>, Failed> {
    let mut options = HealthOptions { overdue_after, ..HealthOptions::default() };
    let mut found = Vec::new();
    let mut is_first = true;
    loop {
        let report = session.client.health_with(&options).await?;
        // Each report counts the whole store again.
        let new = report.findings.into_iter().filter(|finding| is_first || finding.instance.is_some());
        found.extend(new);
        is_first = false;
        match report.next {
            Some(next) => options.after = Some(next),
            None => return Ok(found),
        }
    }
}

fn row(finding: &Finding) -> Row {
    let help = if finding.kind.is_repairable() { "duroxide health repair" } else { "" };
    let word = finding.kind.word();
    Row {
        id: finding.instance.clone().unwrap_or_else(|| word.to_string()),
        cells: vec![
            word.to_string(),
            finding.count.to_string(),
            finding.age.map(when::span).unwrap_or_default(),
            finding.instance.clone().unwrap_or_default(),
            help.to_string(),
        ],
        json: json!({
            "finding": word,
            "count": finding.count,
            "age_seconds": finding.age.map(|age| age.as_secs()),
            "instance": finding.instance,
            "repairable": finding.kind.is_repairable(),
        }),
    }
}

async fn repair(out: &Output, session: &Session, asked: Repair) -> Outcome {
    let selection = match (asked.all, asked.ids.is_empty()) {
        (true, _) => {
            let found = findings(session, HealthOptions::default().overdue_after).await?;
            let repairable = found.into_iter().filter(|finding| finding.kind.is_repairable());
            let ids: BTreeSet<String> = repairable.filter_map(|finding| finding.instance).collect();
            Selection { ids: ids.into_iter().collect(), by: ChosenBy::Filter }
        }
        (false, false) => named(&asked.ids)?,
        (false, true) => return Err(Failed::usage("no instance is named: give ids, `-`, or --all")),
    };
    let consent = Consent { yes: asked.yes, dry_run: asked.dry_run };
    match confirm(&selection, consent, "repaired")? {
        Go::Ahead => {}
        Go::NoFurther => return Ok(Exit::Done),
    }
    let mut rows = Vec::new();
    for id in selection.ids {
        let put_back = session.client.repair(&id).await?;
        let json = json!({ "id": id, "put_back": put_back });
        rows.push(Row { id: id.clone(), cells: vec![id, put_back.to_string()], json });
    }
    out.listing(&Listing { columns: REPAIRED, rows })?;
    Ok(Exit::Done)
}
