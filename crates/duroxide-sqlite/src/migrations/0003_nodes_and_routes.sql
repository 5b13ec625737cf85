-- The nodes that work on the store. A row outlives its node for a day.
CREATE TABLE nodes (
    node_id      TEXT    PRIMARY KEY,
    start_id     TEXT    NOT NULL,            -- tells a node that came back from one that went on
    heartbeat_ms INTEGER NOT NULL,
    joined_at    INTEGER NOT NULL,
    last_seen    INTEGER NOT NULL,
    left_at      INTEGER,                     -- NULL while it has not said that it leaves
    info         TEXT    NOT NULL             -- JSON of what it can do
) STRICT, WITHOUT ROWID;

-- The handler that the next turn of an instance needs. Without a name: none, or it is not known.
ALTER TABLE instances ADD COLUMN route_name TEXT NOT NULL DEFAULT '';
ALTER TABLE instances ADD COLUMN route_version TEXT NOT NULL DEFAULT ''; -- '' when the node's policy chooses
-- How many cancels wait in the inbox. While there are any, every node can end the instance.
ALTER TABLE instances ADD COLUMN cancels INTEGER NOT NULL DEFAULT 0;

UPDATE instances SET route_name = name, route_version = version,
    cancels = (SELECT count(*) FROM inbox n WHERE n.instance_key = instances.key AND n.kind = 7)
    WHERE status = 1;
-- An instance between two executions needs what its next one asks for, not what the last one was.
UPDATE instances SET (route_name, route_version) = (
        SELECT coalesce(json_extract(n.item, '$.ContinueAsNew.orchestration'), ''),
               coalesce(json_extract(n.item, '$.ContinueAsNew.version'), '')
        FROM inbox n WHERE n.instance_key = instances.key AND n.kind = 2 AND json_valid(n.item)
        ORDER BY n.visible_at, n.position LIMIT 1)
    WHERE status = 1
    AND EXISTS (SELECT 1 FROM inbox n WHERE n.instance_key = instances.key AND n.kind = 2 AND json_valid(n.item))
    AND EXISTS (SELECT 1 FROM executions e WHERE e.instance_key = instances.key
                AND e.execution_id = instances.current_execution_id AND e.last_event_id = 0);

-- What a fetch by handler looks at when others' work stands before its own. Without what is locked, so that an
-- instance enters it once and leaves it once in a turn.
CREATE INDEX instances_routed ON instances (pinned_key, route_name, route_version, ready_at)
    WHERE ready_at IS NOT NULL AND suspect = 0;
CREATE INDEX instances_cancelled ON instances (pinned_key, suspect, ready_at)
    WHERE ready_at IS NOT NULL AND cancels > 0;

-- The same for work items, by the activity's name.
CREATE INDEX work_items_routed ON work_items (tag, name, ready_at) WHERE session_id IS NULL AND suspect = 0;
DROP INDEX work_items_of_session;
CREATE INDEX work_items_of_session ON work_items (session_id, tag, name, suspect, ready_at)
    WHERE session_id IS NOT NULL;

-- The first work item of each session, tag, name and suspicion.
DROP TABLE session_heads;
CREATE TABLE session_heads (
    session_id TEXT    NOT NULL,
    tag        TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    suspect    INTEGER NOT NULL,
    ready_at   INTEGER NOT NULL,
    work_id    INTEGER NOT NULL,
    PRIMARY KEY (session_id, tag, name, suspect)
) STRICT, WITHOUT ROWID;
CREATE INDEX session_heads_ready ON session_heads (tag, suspect, name, ready_at, work_id);
INSERT INTO session_heads (session_id, tag, name, suspect, ready_at, work_id)
    SELECT session_id, tag, name, suspect, ready_at, id FROM (
        SELECT session_id, tag, name, suspect, ready_at, id,
               row_number() OVER (PARTITION BY session_id, tag, name, suspect ORDER BY ready_at, id) AS place
        FROM work_items WHERE session_id IS NOT NULL)
    WHERE place = 1;
