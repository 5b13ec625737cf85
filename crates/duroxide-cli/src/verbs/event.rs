//! Sending events and queue messages.

use duroxide::SendOutcome;
use serde_json::json;

use crate::arguments::{EventVerb, Send};
use crate::chosen::payload;
use crate::failure::{Exit, Failed, Outcome};
use crate::output::{Output, Record};
use crate::session::Session;

pub(crate) async fn run(out: &Output, session: &Session, verb: EventVerb) -> Outcome {
    let (outcome, send) = match verb {
        EventVerb::Raise(send) => {
            let data = payload(&send.data)?;
            (session.client.raise_event_checked(&send.id, &send.name, data).await?, send)
        }
        EventVerb::Enqueue(send) => {
            let data = payload(&send.data)?;
            (session.client.enqueue_event_checked(&send.id, &send.name, data).await?, send)
        }
    };
    let Send { id, name, .. } = send;
    let word = match outcome {
        SendOutcome::Delivered => "delivered",
        SendOutcome::Kept => "kept until the instance is started or redriven",
        SendOutcome::NotFound => return Err(Failed::no_instance(&id)),
        SendOutcome::Ended => {
            let what = format!("instance '{id}' has ended: the message reached nothing");
            return Err(Failed::new(Exit::No, what).help("duroxide instance show ID"));
        }
    };
    out.record(&Record {
        id: id.clone(),
        fields: vec![("id", id.clone()), ("name", name.clone()), ("result", word.to_string())],
        json: json!({ "id": id, "name": name, "result": word }),
    })?;
    Ok(Exit::Done)
}
