//! The message that tells how an activity ended.

use duroxide_core::{
    ErrorDetails, HandlerError, WorkItem, check_payload, error_within_limit, not_closed_in_time,
};

use super::activity_work::Work;

pub(super) fn checked(work: &Work, result: Result<String, HandlerError>) -> Result<String, HandlerError> {
    let output = result?;
    check_payload(&format!("output of activity '{}'", work.name), &output)?;
    Ok(output)
}

/// A failure by the program. An error text has the limit of an output; what is longer is cut. JSON that is longer is
/// left out: half of it says nothing.
pub(super) fn failure(work: &Work, failed: HandlerError) -> WorkItem {
    let HandlerError { message, error } = failed;
    match error.map(|error| check_payload("error of the activity", &error).map(|()| error)) {
        None => work.failed(application_error(message)),
        Some(Ok(error)) => work.errored(application_error(message), error, false),
        Some(Err(cause)) => {
            tracing::warn!(
                target: "duroxide::runtime",
                instance_id = %work.instance,
                execution_id = work.execution_id,
                activity_name = %work.name,
                activity_id = work.id,
                "{cause}: only its text is recorded"
            );
            work.failed(application_error(message))
        }
    }
}

fn application_error(message: String) -> ErrorDetails {
    ErrorDetails::activity_failed(error_within_limit(message))
}

/// The failure of a handler that panicked.
pub(super) fn panicked(work: &Work, text: &str, records_panics: bool) -> WorkItem {
    let details = application_error(format!("activity panicked: {text}"));
    if !records_panics {
        return work.failed(details);
    }
    work.errored(details, serde_json::json!(error_within_limit(text.to_string())).to_string(), true)
}

/// The engine takes an activity with a start-to-close deadline whose failure is not retryable for timed out.
pub(super) fn timeout(work: &Work, limit_ms: u64) -> WorkItem {
    work.failed(ErrorDetails::activity_failed_for_good(not_closed_in_time(&work.name, limit_ms)))
}
