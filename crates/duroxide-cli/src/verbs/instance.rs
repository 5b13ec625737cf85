//! The verbs of instances.

use super::{instance_change, instance_list, instance_run, instance_show};
use crate::arguments::InstanceVerb;
use crate::failure::Outcome;
use crate::output::Output;
use crate::session::Session;

pub(crate) async fn run(out: &Output, session: &Session, verb: InstanceVerb) -> Outcome {
    match verb {
        InstanceVerb::List(list) => instance_list::list(out, session, list).await,
        InstanceVerb::Count(filter) => instance_list::count(out, session, &filter).await,
        InstanceVerb::Show(one) => instance_show::show(out, session, &one.id).await,
        InstanceVerb::History(history) => instance_show::history(out, session, history).await,
        InstanceVerb::Tree(one) => instance_show::tree(out, session, &one.id).await,
        InstanceVerb::Wait(wait) => instance_run::wait(out, session, wait).await,
        InstanceVerb::Start(start) => instance_run::start(out, session, start).await,
        InstanceVerb::Cancel(cancel) => instance_change::cancel(out, session, cancel).await,
        InstanceVerb::Delete(delete) => instance_change::delete(out, session, delete).await,
        InstanceVerb::Redrive(chosen) => instance_change::redrive(out, session, chosen).await,
    }
}
