-- `{s}` stands for the schema.

CREATE SEQUENCE {s}.instance_keys;
CREATE SEQUENCE {s}.work_ids;

-- What is known of an instance. Written when it starts, when its first turn names its version, and when it
-- ends; what changes with every message and turn is in `queues`, which has fewer indexes.
CREATE TABLE {s}.instances (
    key                  BIGINT  PRIMARY KEY,    -- grows: the order of creation
    instance_id          TEXT    COLLATE "C" NOT NULL UNIQUE,
    incarnation          BIGINT  NOT NULL,       -- random; the bits of an unsigned 64-bit number
    name                 TEXT    COLLATE "C" NOT NULL,
    version              TEXT    COLLATE "C" NOT NULL, -- '' when none is known
    parent_instance      TEXT    COLLATE "C",
    parent_execution_id  BIGINT,
    parent_event_id      BIGINT,
    created_at           BIGINT  NOT NULL,       -- times are in ms since the epoch, by the server's clock
    ended_at             BIGINT,                 -- NULL while it runs
    status               BIGINT  NOT NULL        -- 1 running, 2 completed, 3 failed
);

CREATE INDEX instances_parent ON {s}.instances (parent_instance, created_at, key) WHERE parent_instance IS NOT NULL;
-- What listings walk, latest first.
CREATE INDEX instances_created ON {s}.instances (created_at, key);
CREATE INDEX instances_status ON {s}.instances (status, created_at, key);
CREATE INDEX instances_name ON {s}.instances (name, created_at, key);
-- Finished roots, those that ended first to begin with: what retention looks at.
CREATE INDEX instances_ended ON {s}.instances (ended_at, key)
    WHERE ended_at IS NOT NULL AND parent_instance IS NULL;

-- The inbox of each instance as a whole: how full it is, when it is ready, who holds it. Whoever changes an
-- instance or its inbox holds the lock on this row.
CREATE TABLE {s}.queues (
    key                  BIGINT  PRIMARY KEY,    -- of the instance
    ended                BOOLEAN NOT NULL,
    updated_at           BIGINT  NOT NULL,
    current_execution_id BIGINT  NOT NULL,
    pinned_key           BIGINT  NOT NULL,       -- packed version of the current execution, -1 for none
    has_kv               BOOLEAN NOT NULL,
    inbox_count          BIGINT  NOT NULL,
    next_position        BIGINT  NOT NULL,
    not_before           BIGINT  NOT NULL,       -- the end of the backoff; -1: a cancel came during the turn
    ready_at             BIGINT,                 -- NULL: inbox empty. Locked: when the lock expires
    suspect              BOOLEAN NOT NULL,       -- while locked, and after a lock expired
    suspect_before       BOOLEAN NOT NULL,       -- `suspect` as it was when the lock was taken
    -- The lock: NULL when there is none. Its messages are those of the inbox up to
    -- (lock_visible_at, lock_position) that stood in it before position lock_watermark was given out.
    lock_nonce           BIGINT,
    lock_visible_at      BIGINT,
    lock_position        BIGINT,
    lock_watermark       BIGINT,
    lock_count           BIGINT
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- What a fetch looks at. Ends with the key, so that ties go to the oldest instance.
CREATE INDEX queues_ready ON {s}.queues (pinned_key, suspect, ready_at, key) WHERE ready_at IS NOT NULL;

CREATE TABLE {s}.executions (
    instance_key  BIGINT NOT NULL,
    execution_id  BIGINT NOT NULL,
    status        BIGINT NOT NULL,               -- 1 running, 2 completed, 3 failed, 4 continued as new
    pinned_major  BIGINT,
    pinned_minor  BIGINT,
    pinned_patch  BIGINT,
    started_at    BIGINT NOT NULL,
    completed_at  BIGINT,
    event_count   BIGINT NOT NULL,
    last_event_id BIGINT NOT NULL,
    history_bytes BIGINT NOT NULL,
    output        TEXT,
    failure       TEXT,                          -- JSON of the error
    PRIMARY KEY (instance_key, execution_id)
) WITH (fillfactor = 70);

-- Executions that can be pruned.
CREATE INDEX executions_continued ON {s}.executions (instance_key) WHERE status = 4;

CREATE TABLE {s}.history (
    instance_key BIGINT NOT NULL,
    execution_id BIGINT NOT NULL,
    event_id     BIGINT NOT NULL,
    event        TEXT   NOT NULL,                -- JSON
    PRIMARY KEY (instance_key, execution_id, event_id)
);

CREATE TABLE {s}.custom_statuses (
    instance_key BIGINT PRIMARY KEY,
    version      BIGINT NOT NULL,
    status       TEXT
);

CREATE TABLE {s}.kv (
    instance_key       BIGINT NOT NULL,
    key                TEXT   COLLATE "C" NOT NULL,
    last_updated_at_ms BIGINT NOT NULL,
    value              TEXT   NOT NULL,
    PRIMARY KEY (instance_key, key)
);

-- The messages of the instances, in the order in which they are admitted.
CREATE TABLE {s}.inbox (
    instance_key BIGINT NOT NULL,
    visible_at   BIGINT NOT NULL,
    position     BIGINT NOT NULL,
    kind         BIGINT NOT NULL,
    execution_id BIGINT,
    event_id     BIGINT,
    attempts     BIGINT NOT NULL DEFAULT 0,      -- ended attempts; the one of the present lock comes on top
    item         TEXT   NOT NULL,                -- JSON
    PRIMARY KEY (instance_key, visible_at, position)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- Timers by their schedule, for turns that cancel them.
CREATE INDEX inbox_timers ON {s}.inbox (instance_key, execution_id, event_id) WHERE kind = 5;

-- What was in the inbox of an instance that failed and may go on after a fix, in its order.
CREATE TABLE {s}.kept_messages (
    instance_key BIGINT NOT NULL,
    position     BIGINT NOT NULL,
    item         TEXT   NOT NULL,                -- JSON
    PRIMARY KEY (instance_key, position)
);

-- Messages kept for instances that have not started. No fetch looks here.
CREATE TABLE {s}.early_messages (
    instance_id TEXT   COLLATE "C" NOT NULL,
    position    BIGINT NOT NULL,
    visible_at  BIGINT NOT NULL,
    kept_at     BIGINT NOT NULL,
    item        TEXT   NOT NULL,                 -- JSON
    PRIMARY KEY (instance_id, position)
);

CREATE INDEX early_messages_age ON {s}.early_messages (kept_at);

CREATE TABLE {s}.work_items (
    id             BIGINT  PRIMARY KEY,          -- grows: the order of arrival
    instance_id    TEXT    COLLATE "C" NOT NULL,
    execution_id   BIGINT  NOT NULL,
    activity_id    BIGINT  NOT NULL,
    name           TEXT    NOT NULL,
    tag            TEXT    COLLATE "C" NOT NULL, -- '' for none
    session_id     TEXT    COLLATE "C",
    visible_at     BIGINT  NOT NULL,
    ready_at       BIGINT  NOT NULL,             -- locked: when the lock expires
    suspect        BOOLEAN NOT NULL DEFAULT FALSE,
    suspect_before BOOLEAN NOT NULL DEFAULT FALSE,
    attempts       BIGINT  NOT NULL DEFAULT 0,
    lock_nonce     BIGINT,                       -- NULL: not locked
    progress       TEXT,                         -- what the activity reported last
    item           TEXT    NOT NULL,             -- JSON
    UNIQUE (instance_id, execution_id, activity_id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX work_items_ready ON {s}.work_items (tag, suspect, ready_at, id) WHERE session_id IS NULL;
CREATE INDEX work_items_of_session ON {s}.work_items (session_id, tag, suspect, ready_at, id)
    WHERE session_id IS NOT NULL;
-- What is in progress of each session, or was when a lock expired.
CREATE INDEX work_items_locked_of_session ON {s}.work_items (session_id, ready_at)
    WHERE session_id IS NOT NULL AND lock_nonce IS NOT NULL;

-- Who may run the activities of a session. A claim lasts at least as long as the lock of any of its items.
CREATE TABLE {s}.sessions (
    session_id       TEXT   COLLATE "C" PRIMARY KEY,
    owner            TEXT   COLLATE "C" NOT NULL,
    locked_until     BIGINT NOT NULL,
    last_activity_at BIGINT NOT NULL
) WITH (fillfactor = 70);

CREATE INDEX sessions_owner ON {s}.sessions (owner);

-- The first work item of each session, tag and suspicion, so that a fetch passes a session that belongs to
-- somebody else in one step, however much is queued in it. Written under the session's advisory lock.
CREATE TABLE {s}.session_heads (
    session_id TEXT    COLLATE "C" NOT NULL,
    tag        TEXT    COLLATE "C" NOT NULL,
    suspect    BOOLEAN NOT NULL,
    ready_at   BIGINT  NOT NULL,
    work_id    BIGINT  NOT NULL,
    PRIMARY KEY (session_id, tag, suspect)
) WITH (fillfactor = 70);

CREATE INDEX session_heads_ready ON {s}.session_heads (tag, suspect, ready_at, work_id);

-- Rows that did not decode, kept for whoever must find the cause.
CREATE TABLE {s}.set_aside (
    id           BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    instance_id  TEXT   COLLATE "C" NOT NULL,
    kind         BIGINT NOT NULL,
    execution_id BIGINT,
    event_id     BIGINT,
    set_aside_at BIGINT NOT NULL,
    cause        TEXT   NOT NULL,
    item         TEXT   NOT NULL
);

CREATE INDEX set_aside_instance ON {s}.set_aside (instance_id);
