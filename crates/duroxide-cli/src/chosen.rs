//! The instances that a command is about: ids, standard input, filters.

use std::io::Read as _;

use duroxide::{InstanceInfo, InstanceQuery};

use crate::arguments::{Chosen, Filter};
use crate::failure::{Exit, Failed};
use crate::output::read_id;
use crate::session::Session;

/// How many instances a page has.
const PAGE: u32 = 1_000;

impl Filter {
    /// The filter as the store understands it.
    pub(crate) fn query(&self) -> InstanceQuery {
        let status = self.status.as_deref().map(|word| match word {
            "running" => "Running",
            "completed" => "Completed",
            _ => "Failed",
        });
        InstanceQuery {
            status: status.map(str::to_string),
            name: self.name.clone(),
            version: self.handler_version.clone(),
            created_from: self.created_after,
            created_before: self.created_before,
            updated_from: self.updated_after,
            updated_before: self.updated_before,
            parent: self.parent.clone(),
            id_prefix: self.prefix.clone(),
            ..InstanceQuery::default()
        }
    }

    /// Whether every instance is meant.
    pub(crate) fn is_empty(&self) -> bool {
        self.query() == InstanceQuery::default()
    }
}

/// Calls `each` for every instance of a query, page by page.
pub(crate) async fn for_each_instance(
    session: &Session,
    mut query: InstanceQuery,
    mut each: impl FnMut(InstanceInfo),
) -> Result<(), Failed> {
    query.limit = Some(PAGE);
    loop {
        let page = session.client.list_instances_page(&query).await?;
        page.instances.into_iter().for_each(&mut each);
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(()),
        }
    }
}

/// How instances were chosen, which decides whether the command asks first.
pub(crate) struct Selection {
    pub(crate) ids: Vec<String>,
    pub(crate) by: ChosenBy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChosenBy {
    /// One id on the command line.
    OneId,
    /// Several ids on the command line.
    Ids,
    /// Standard input, which then cannot answer a question.
    Input,
    Filter,
}

/// The ids of the command line, or those of standard input.
pub(crate) fn named(ids: &[String]) -> Result<Selection, Failed> {
    let by = match ids {
        [dash] if dash == "-" => ChosenBy::Input,
        [_] => ChosenBy::OneId,
        _ => ChosenBy::Ids,
    };
    let mut found: Vec<String> = match by {
        ChosenBy::Input => lines(&standard_input()?)?,
        ChosenBy::OneId | ChosenBy::Ids | ChosenBy::Filter => ids.to_vec(),
    };
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|id| seen.insert(id.clone()));
    Ok(Selection { ids: found, by })
}

/// The instances that are named, or those that the filter names.
pub(crate) async fn select(session: &Session, chosen: &Chosen) -> Result<Selection, Failed> {
    match (chosen.ids.is_empty(), chosen.filter.is_empty()) {
        (false, true) => named(&chosen.ids),
        (true, false) => {
            let mut ids = Vec::new();
            for_each_instance(session, chosen.filter.query(), |info| ids.push(info.instance_id)).await?;
            Ok(Selection { ids, by: ChosenBy::Filter })
        }
        (false, false) => Err(Failed::usage("both ids and a filter are given: give one of them")),
        (true, true) => Err(Failed::usage(
            "no instance is named: give ids, `-` for standard input, or a filter such as --status",
        )),
    }
}

fn lines(text: &str) -> Result<Vec<String>, Failed> {
    text.lines().filter(|line| !line.trim().is_empty()).map(read_id).collect()
}

pub(crate) fn standard_input() -> Result<String, Failed> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| Failed::new(Exit::Error, format!("cannot read standard input: {error}")))?;
    Ok(text)
}

/// A payload: the text itself, `@FILE`, or `-` for standard input.
pub(crate) fn payload(text: &str) -> Result<String, Failed> {
    match text.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| Failed::usage(format!("cannot read '{path}': {error}"))),
        None if text == "-" => standard_input(),
        None => Ok(text.to_string()),
    }
}
