//! Every limit, with its unit. At the limit is fine; above it the call or the turn fails with a clear text.

/// An instance's id. Child ids grow by nesting; this leaves room for about 50 levels.
pub const MAX_INSTANCE_ID_BYTES: usize = 1024;
/// A name of an orchestration, activity, event or queue.
pub const MAX_NAME_BYTES: usize = 512;
/// One input, output or event. Larger data belongs into a store made for it.
pub const MAX_PAYLOAD_BYTES: usize = 8 * 1024 * 1024;
/// Room that an error text leaves below [`MAX_PAYLOAD_BYTES`] when it is cut: for the note about that, and for what is put
/// before it on its way to the program that waits for it.
pub const ERROR_PREFIX_BYTES: usize = 1024;
/// Events in one execution. Twice the events of a loop over 500,000 queued messages.
pub const MAX_HISTORY_EVENTS: usize = 1_000_000;
/// Things that one turn may schedule: activities, timers, waits, children and detached starts.
pub const MAX_SCHEDULES_PER_TURN: usize = 200_000;
/// What a program may write in answer to one message: inputs, names, values and statuses, 128 MiB. A fan-out of
/// [`MAX_SCHEDULES_PER_TURN`] has 671 bytes for each, one of 16 has a full payload for each. While a turn is committed, it
/// is in memory as events, as messages and as their stored forms, twice each at worst: that stays below 1 GiB.
pub const MAX_STEP_BYTES: usize = 128 * 1024 * 1024;
/// Messages waiting in one instance's inbox, or kept for an instance that has not started.
pub const MAX_INBOX_MESSAGES: usize = 1_000_000;
/// Messages that one fetch takes from an inbox. The rest follow in the next turn.
pub const MAX_MESSAGES_PER_FETCH: usize = 10_000;
/// The stored forms of the messages that one fetch of turns brings, of all its instances together, 8 MiB: as much as the
/// largest payload. The first message comes whatever it weighs; the rest follow in later turns. A turn is in memory as
/// messages, events and their stored forms, and other instances wait while it is written: both stay small at this size.
pub const MAX_MESSAGE_BYTES_PER_FETCH: usize = MAX_PAYLOAD_BYTES;
/// The large messages that the clients of one store have under way, 1 MiB: a quarter of a transaction, so that other calls
/// wait for little more than the transaction under way. A larger message is sent alone. The others wait as they are, so
/// that what is sent at once is in memory once and not twice.
pub const MAX_SENDING_BYTES: usize = 1024 * 1024;
/// The stored forms of the work items that one fetch brings, 16 MiB: two of the largest payload. The first one comes
/// whatever it weighs.
pub const MAX_WORK_BYTES_PER_FETCH: usize = 2 * MAX_PAYLOAD_BYTES;
/// Events of histories that one fetch brings besides those of its first instance: locks run while they are read.
pub const MAX_EVENTS_PER_FETCH: u64 = 50_000;
/// The stored forms of those events, 32 MiB: they are in memory twice while they are decoded.
pub const MAX_HISTORY_BYTES_PER_FETCH: u64 = 32 * 1024 * 1024;
/// Messages kept for an instance that has not started are dropped (and counted) after this: 7 days.
pub const EARLY_MESSAGE_RETENTION_MS: u64 = 7 * 24 * 60 * 60 * 1000;
/// The row of a node that nobody has heard of for this long is removed: a day.
pub const NODE_RETENTION_MS: u64 = 24 * 60 * 60 * 1000;
/// The messages quoted in a poison error; the rest are counted.
pub const MAX_POISON_MESSAGE_BYTES: usize = 1024 * 1024;
/// Each text of the cause that is kept with work that was given back; the rest is cut. The row is written at every turn, so
/// it stays small; a mismatch with the history still fits.
pub const MAX_BOUNCE_TEXT_BYTES: usize = 4 * 1024;
/// Times that an orchestration may wake itself without scheduling or receiving anything.
pub const MAX_IDLE_WAKES_PER_TURN: usize = 1_000_000;
/// How long a cancelled execution waits for the workers that run what it gave up, 60 s: they notice it within seconds, and
/// give their handlers 10 s by default. A worker that died says nothing, and neither does one that had not begun.
pub const MAX_STOP_WAIT_MS: u64 = 60 * 1000;
/// Keys in one instance's KV store.
pub const MAX_KV_KEYS: usize = 10_000;
/// One key in the KV store. All keys of a full store together stay in the order of 10 MB.
pub const MAX_KV_KEY_BYTES: usize = 1024;
/// One value in the KV store.
pub const MAX_KV_VALUE_BYTES: usize = 1024 * 1024;
/// Values that one event carries into the next execution; what is more goes into further events.
pub const CARRIED_VALUES_PER_EVENT_BYTES: usize = 4 * 1024 * 1024;
/// The custom status of an instance.
pub const MAX_CUSTOM_STATUS_BYTES: usize = 256 * 1024;
/// The name of an activity's tag.
pub const MAX_TAG_NAME_BYTES: usize = 256;
/// The id of an activity's session; as long as the id of an instance, which makes a good one.
pub const MAX_SESSION_ID_BYTES: usize = MAX_INSTANCE_ID_BYTES;
/// Idle sessions whose claims one runtime keeps alive; those used longest ago are not renewed when there are more. One
/// statement renews them all, every 25 s by default: this many rows cost it some milliseconds.
pub const MAX_KEPT_SESSIONS: usize = 1_000;
/// What an activity may report about its progress at a time.
pub const MAX_PROGRESS_BYTES: usize = 64 * 1024;
/// Tags that one worker accepts.
pub const MAX_WORKER_TAGS: usize = 5;
/// Unread queue messages that continue-as-new carries inside the next start; the rest are put back.
pub const MAX_CARRY_FORWARD_EVENTS: usize = 100;
/// Instances on one page of a listing, when the query does not say.
pub const DEFAULT_PAGE_INSTANCES: u32 = 100;
/// Instances on one page of a listing at most.
pub const MAX_PAGE_INSTANCES: u32 = 1000;
/// Instances that one page looks at, matching or not: some ten milliseconds. The rest follow in the next page.
pub const MAX_INSTANCES_SEEN_PER_PAGE: usize = 10_000;
/// Instances that a bulk deletion or prune takes, when the filter does not say.
pub const DEFAULT_BULK_INSTANCES: u32 = 1000;
/// Names of orchestrations, and as many of activities, that one process puts into the labels of its metrics; the rest
/// are counted as `other`. Some 20 time series each keep an exporter below 50,000.
pub const MAX_NAMES_IN_METRICS: usize = 1000;
