-- One row per instance. It is written at every enqueue, fetch and ack, so nothing large stands in it:
-- outputs are in `executions`, the custom status in `custom_statuses`.
CREATE TABLE instances (
    key                  INTEGER PRIMARY KEY, -- grows: the order of creation
    instance_id          TEXT    NOT NULL UNIQUE,
    incarnation          INTEGER NOT NULL,    -- random; the bits of an unsigned 64-bit number
    name                 TEXT    NOT NULL,
    version              TEXT    NOT NULL,    -- '' when none is known
    parent_instance      TEXT,
    parent_execution_id  INTEGER,
    parent_event_id      INTEGER,
    created_at           INTEGER NOT NULL,
    updated_at           INTEGER NOT NULL,
    ended_at             INTEGER,             -- NULL while it runs
    status               INTEGER NOT NULL,    -- 1 running, 2 completed, 3 failed
    current_execution_id INTEGER NOT NULL,
    pinned_key           INTEGER NOT NULL,    -- packed version of the current execution, -1 for none
    has_kv               INTEGER NOT NULL DEFAULT 0,
    inbox_count          INTEGER NOT NULL,
    next_position        INTEGER NOT NULL,
    not_before           INTEGER NOT NULL DEFAULT 0,
    ready_at             INTEGER,             -- NULL: inbox empty. Locked: when the lock expires
    suspect              INTEGER NOT NULL DEFAULT 0, -- 1 while locked, and after a lock expired
    suspect_before       INTEGER NOT NULL DEFAULT 0, -- `suspect` as it was when the lock was taken
    -- The lock: NULL when there is none. Its messages are those of the inbox up to
    -- (lock_visible_at, lock_position) that stood in it before position lock_watermark was given out.
    lock_nonce           INTEGER,
    lock_visible_at      INTEGER,
    lock_position        INTEGER,
    lock_watermark       INTEGER
) STRICT;

-- What a fetch looks at. Ends with the key, so that ties go to the oldest instance.
CREATE INDEX instances_ready ON instances (pinned_key, suspect, ready_at) WHERE ready_at IS NOT NULL;
CREATE INDEX instances_parent ON instances (parent_instance) WHERE parent_instance IS NOT NULL;
-- What listings walk, latest first. Written when an instance starts, begins under another name, and ends.
CREATE INDEX instances_status ON instances (status, created_at, key);
CREATE INDEX instances_name ON instances (name, created_at, key);
-- Finished roots, those that ended first to begin with: what retention looks at.
CREATE INDEX instances_ended ON instances (ended_at) WHERE ended_at IS NOT NULL AND parent_instance IS NULL;

CREATE TABLE executions (
    instance_key  INTEGER NOT NULL,
    execution_id  INTEGER NOT NULL,
    status        INTEGER NOT NULL,           -- 1 running, 2 completed, 3 failed, 4 continued as new
    pinned_major  INTEGER,
    pinned_minor  INTEGER,
    pinned_patch  INTEGER,
    started_at    INTEGER NOT NULL,
    completed_at  INTEGER,
    event_count   INTEGER NOT NULL DEFAULT 0,
    last_event_id INTEGER NOT NULL DEFAULT 0,
    history_bytes INTEGER NOT NULL DEFAULT 0,
    output        TEXT,
    failure       TEXT,                       -- JSON of the error
    PRIMARY KEY (instance_key, execution_id)
) STRICT, WITHOUT ROWID;

-- Executions that can be pruned.
CREATE INDEX executions_continued ON executions (instance_key) WHERE status = 4;

CREATE TABLE history (
    instance_key INTEGER NOT NULL,
    execution_id INTEGER NOT NULL,
    event_id     INTEGER NOT NULL,
    event        TEXT    NOT NULL,            -- JSON
    PRIMARY KEY (instance_key, execution_id, event_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE custom_statuses (
    instance_key INTEGER PRIMARY KEY,
    version      INTEGER NOT NULL,
    status       TEXT
) STRICT;

CREATE TABLE kv (
    instance_key       INTEGER NOT NULL,
    key                TEXT    NOT NULL,
    last_updated_at_ms INTEGER NOT NULL,
    value              TEXT    NOT NULL,
    PRIMARY KEY (instance_key, key)
) STRICT, WITHOUT ROWID;

-- The messages of the instances, in the order in which they are admitted.
CREATE TABLE inbox (
    instance_key INTEGER NOT NULL,
    visible_at   INTEGER NOT NULL,
    position     INTEGER NOT NULL,
    kind         INTEGER NOT NULL,
    execution_id INTEGER,
    event_id     INTEGER,
    attempts     INTEGER NOT NULL DEFAULT 0,  -- ended attempts; the one of the present lock comes on top
    item         TEXT    NOT NULL,            -- JSON
    PRIMARY KEY (instance_key, visible_at, position)
) STRICT, WITHOUT ROWID;

-- Timers by their schedule, for turns that cancel them.
CREATE INDEX inbox_timers ON inbox (instance_key, execution_id, event_id) WHERE kind = 5;

-- Messages kept for instances that have not started. No fetch looks here.
CREATE TABLE early_messages (
    instance_id TEXT    NOT NULL,
    position    INTEGER NOT NULL,
    visible_at  INTEGER NOT NULL,
    kept_at     INTEGER NOT NULL,
    item        TEXT    NOT NULL,             -- JSON
    PRIMARY KEY (instance_id, position)
) STRICT, WITHOUT ROWID;

CREATE INDEX early_messages_age ON early_messages (kept_at);

CREATE TABLE work_items (
    id             INTEGER PRIMARY KEY,       -- grows: the order of arrival
    instance_id    TEXT    NOT NULL,
    execution_id   INTEGER NOT NULL,
    activity_id    INTEGER NOT NULL,
    name           TEXT    NOT NULL,
    tag            TEXT    NOT NULL,          -- '' for none
    session_id     TEXT,
    visible_at     INTEGER NOT NULL,
    ready_at       INTEGER NOT NULL,          -- locked: when the lock expires
    suspect        INTEGER NOT NULL DEFAULT 0,
    suspect_before INTEGER NOT NULL DEFAULT 0,
    attempts       INTEGER NOT NULL DEFAULT 0,
    -- Never NULL and always eight bytes wide: a row that keeps its size is updated in place, and the pages
    -- of a large item behind it are not written again. The smallest integer means: not locked.
    lock_nonce     INTEGER NOT NULL,
    progress       TEXT,                      -- what the activity reported last
    item           TEXT    NOT NULL,          -- JSON
    UNIQUE (instance_id, execution_id, activity_id)
) STRICT;

CREATE INDEX work_items_ready ON work_items (tag, suspect, ready_at) WHERE session_id IS NULL;
CREATE INDEX work_items_of_session ON work_items (session_id, tag, suspect, ready_at) WHERE session_id IS NOT NULL;
-- What is in progress of each session, or was when a lock expired.
CREATE INDEX work_items_locked_of_session ON work_items (session_id, ready_at)
    WHERE session_id IS NOT NULL AND lock_nonce <> -9223372036854775808;

-- Who may run the activities of a session. A claim lasts at least as long as the lock of any of its items.
CREATE TABLE sessions (
    session_id       TEXT    PRIMARY KEY,
    owner            TEXT    NOT NULL,
    locked_until     INTEGER NOT NULL,
    last_activity_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX sessions_owner ON sessions (owner);

-- The first work item of each session, tag and suspicion, so that a fetch passes a session that belongs to
-- somebody else in one step, however much is queued in it.
CREATE TABLE session_heads (
    session_id TEXT    NOT NULL,
    tag        TEXT    NOT NULL,
    suspect    INTEGER NOT NULL,
    ready_at   INTEGER NOT NULL,
    work_id    INTEGER NOT NULL,
    PRIMARY KEY (session_id, tag, suspect)
) STRICT, WITHOUT ROWID;

CREATE INDEX session_heads_ready ON session_heads (tag, suspect, ready_at, work_id);

-- Rows that did not decode, kept for whoever must find the cause.
CREATE TABLE set_aside (
    id           INTEGER PRIMARY KEY,
    instance_id  TEXT    NOT NULL,
    kind         INTEGER NOT NULL,
    execution_id INTEGER,
    event_id     INTEGER,
    set_aside_at INTEGER NOT NULL,
    cause        TEXT    NOT NULL,
    item         TEXT    NOT NULL
) STRICT;

CREATE INDEX set_aside_instance ON set_aside (instance_id);
