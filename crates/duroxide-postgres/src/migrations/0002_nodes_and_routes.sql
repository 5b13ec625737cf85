-- The nodes that work on the store. A row outlives its node for a day.
CREATE TABLE {s}.nodes (
    node_id      TEXT   COLLATE "C" PRIMARY KEY,
    start_id     TEXT   NOT NULL,                -- tells a node that came back from one that went on
    heartbeat_ms BIGINT NOT NULL,
    joined_at    BIGINT NOT NULL,
    last_seen    BIGINT NOT NULL,
    left_at      BIGINT,                         -- NULL while it has not said that it leaves
    info         TEXT   NOT NULL                 -- JSON of what it can do
) WITH (fillfactor = 50);

-- The handler that the next turn of an instance needs. Without a name: none, or it is not known, which is what
-- rows have that a build before this migration writes.
ALTER TABLE {s}.queues
    ADD COLUMN route_name    TEXT    COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN route_version TEXT    COLLATE "C" NOT NULL DEFAULT '', -- '' when the node's policy chooses
    -- Whether a cancel waits in the inbox. Then every node can end the instance.
    ADD COLUMN cancelled     BOOLEAN NOT NULL DEFAULT FALSE;

UPDATE {s}.queues q SET route_name = i.name, route_version = i.version,
    cancelled = EXISTS (SELECT 1 FROM {s}.inbox n WHERE n.instance_key = q.key AND n.kind = 7)
    FROM {s}.instances i WHERE i.key = q.key AND NOT q.ended;
-- An instance between two executions needs what its next one asks for: that is in the message, and not known here.
UPDATE {s}.queues q SET route_name = '', route_version = ''
    WHERE EXISTS (SELECT 1 FROM {s}.inbox n WHERE n.instance_key = q.key AND n.kind = 2);

-- What a fetch by handler looks at. Without what is locked, so that an instance enters it once in a turn. The
-- conditions are written so that only queries by handler use these indexes, and those use no other: whatever the
-- statistics say, walking through the others' work is never the better plan.
CREATE INDEX queues_routed ON {s}.queues (pinned_key, route_name, route_version, ready_at, key)
    WHERE ready_at IS NOT NULL AND suspect::int = 0;
CREATE INDEX queues_cancelled ON {s}.queues (pinned_key, ready_at, key)
    WHERE ready_at IS NOT NULL AND suspect::int = 0 AND cancelled;

-- The same for work items, by the activity's name.
CREATE INDEX work_items_routed ON {s}.work_items (tag, name, ready_at, id)
    WHERE num_nulls(session_id) = 1 AND suspect::int = 0;
CREATE INDEX work_items_routed_of_session ON {s}.work_items (session_id, tag, name, suspect, ready_at, id)
    WHERE num_nulls(session_id) = 0;
