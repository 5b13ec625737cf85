-- The function as it was, with a statement for each kind of row again instead of one for each row, each of which the server
-- had to begin. By `key = ANY (ARRAY[..])` it looks rows up by key, even in queues, inboxes, executions and work items that
-- the planner believes to be empty: see 0007.
CREATE OR REPLACE FUNCTION {s}.write_group (
    now_ms BIGINT,
    reserved BIGINT[],      -- the numbers of the advisory locks of ids that must be free
    alone BOOLEAN,          -- whether this is the whole transaction
    queues BIGINT[],        -- rows that change
    routes TEXT[], route_versions TEXT[], -- of those rows; NULL, or no array at all, where they stay
    gone_work BIGINT[],     -- work items to delete: id, lock
    covered BIGINT[],       -- messages to delete: key, up to visible_at, position; below this position
    new_queues BIGINT[], new_instances BIGINT[], new_ids TEXT[], new_names TEXT[], new_versions TEXT[],
    new_parents TEXT[], new_routes TEXT[], new_route_versions TEXT[],
    described BIGINT[], names TEXT[], versions TEXT[], parents TEXT[],
    ended BIGINT[],         -- key, status
    messages BIGINT[], message_items TEXT[],
    events BIGINT[], event_texts TEXT[],
    new_executions BIGINT[], new_outputs TEXT[], new_failures TEXT[],
    executions BIGINT[], outputs TEXT[], failures TEXT[],
    work BIGINT[], work_instances TEXT[], work_names TEXT[], work_tags TEXT[], work_sessions TEXT[],
    work_items TEXT[],
    first_inputs BIGINT[],  -- of the new instances: the fingerprints of their inputs
    OUT clock BIGINT, OUT work_ids BIGINT[], OUT work_nonces BIGINT[]
) LANGUAGE plpgsql AS $$
DECLARE
    none CONSTANT BIGINT := -9223372036854775807;
    written BIGINT;
BEGIN
    IF cardinality(reserved) > 0 THEN
        PERFORM pg_advisory_xact_lock(n) FROM unnest(reserved) AS n;
        PERFORM 1 FROM unnest(new_ids) AS u (id) JOIN {s}.instances i ON i.instance_id = u.id LIMIT 1;
        IF NOT FOUND THEN
            PERFORM 1 FROM unnest(new_ids) AS u (id) JOIN {s}.early_messages m ON m.instance_id = u.id LIMIT 1;
        END IF;
        IF FOUND AND alone THEN
            RETURN;
        ELSIF FOUND THEN
            RAISE EXCEPTION 'duroxide: an id is in use; the transaction is repeated'
                USING ERRCODE = 'serialization_failure';
        END IF;
    END IF;
    IF cardinality(queues) > 0 THEN
        UPDATE {s}.queues q SET
            revision = q.revision + 1, ended = queues[u.o + 3] <> 0, updated_at = queues[u.o + 4],
            current_execution_id = queues[u.o + 5], pinned_key = queues[u.o + 6],
            has_kv = queues[u.o + 7] <> 0, inbox_count = queues[u.o + 8], next_position = queues[u.o + 9],
            not_before = queues[u.o + 10], ready_at = nullif(queues[u.o + 11], none),
            suspect = queues[u.o + 12] <> 0, suspect_before = queues[u.o + 13] <> 0,
            lock_nonce = nullif(queues[u.o + 14], none), lock_visible_at = nullif(queues[u.o + 15], none),
            lock_position = nullif(queues[u.o + 16], none), lock_watermark = nullif(queues[u.o + 17], none),
            lock_count = nullif(queues[u.o + 18], none),
            route_name = coalesce(routes[u.o / 18 + 1], q.route_name),
            route_version = coalesce(route_versions[u.o / 18 + 1], q.route_version)
        FROM generate_series(0, cardinality(queues) - 1, 18) AS u (o)
        WHERE q.key = ANY (ARRAY[queues[u.o + 1]]) AND q.revision = queues[u.o + 2];
        GET DIAGNOSTICS written = ROW_COUNT;
        IF written <> cardinality(queues) / 18 THEN
            RAISE EXCEPTION 'duroxide: another process changed these rows; the transaction is repeated'
                USING ERRCODE = 'serialization_failure';
        END IF;
    END IF;
    IF cardinality(gone_work) > 0 THEN
        DELETE FROM {s}.work_items w USING generate_series(0, cardinality(gone_work) - 1, 2) AS u (o)
        WHERE w.id = ANY (ARRAY[gone_work[u.o + 1]])
            AND w.lock_nonce IS NOT DISTINCT FROM nullif(gone_work[u.o + 2], none);
        GET DIAGNOSTICS written = ROW_COUNT;
        IF written <> cardinality(gone_work) / 2 THEN
            RAISE EXCEPTION 'duroxide: another process changed these rows; the transaction is repeated'
                USING ERRCODE = 'serialization_failure';
        END IF;
    END IF;
    IF cardinality(covered) > 0 THEN
        DELETE FROM {s}.inbox n USING generate_series(0, cardinality(covered) - 1, 4) AS u (o)
        WHERE n.instance_key = ANY (ARRAY[covered[u.o + 1]]) AND n.position < covered[u.o + 4]
            AND (n.visible_at, n.position) <= (covered[u.o + 2], covered[u.o + 3]);
    END IF;
    IF cardinality(new_queues) > 0 THEN
        INSERT INTO {s}.instances (key, instance_id, incarnation, name, version, parent_instance,
            parent_execution_id, parent_event_id, created_at, status, first_input)
        SELECT new_instances[u.n * 4 - 3], u.id, new_instances[u.n * 4 - 2], u.name, u.version, u.parent,
            nullif(new_instances[u.n * 4 - 1], none), nullif(new_instances[u.n * 4], none), now_ms, 1,
            first_inputs[u.n]
        FROM unnest(new_ids, new_names, new_versions, new_parents)
            WITH ORDINALITY AS u (id, name, version, parent, n);
        INSERT INTO {s}.queues (key, revision,
            ended, updated_at, current_execution_id, pinned_key, has_kv, inbox_count, next_position,
            not_before, ready_at, suspect, suspect_before, lock_nonce, lock_visible_at, lock_position,
            lock_watermark, lock_count, route_name, route_version)
        SELECT
            new_queues[u.o + 1], 0, new_queues[u.o + 2] <> 0, new_queues[u.o + 3], new_queues[u.o + 4],
            new_queues[u.o + 5], new_queues[u.o + 6] <> 0, new_queues[u.o + 7], new_queues[u.o + 8],
            new_queues[u.o + 9], nullif(new_queues[u.o + 10], none), new_queues[u.o + 11] <> 0,
            new_queues[u.o + 12] <> 0, nullif(new_queues[u.o + 13], none), nullif(new_queues[u.o + 14], none),
            nullif(new_queues[u.o + 15], none), nullif(new_queues[u.o + 16], none),
            nullif(new_queues[u.o + 17], none), u.route, u.route_version
        FROM (SELECT (r.n - 1) * 17 AS o, r.route, r.route_version
            FROM unnest(new_routes, new_route_versions) WITH ORDINALITY AS r (route, route_version, n)) AS u;
    END IF;
    IF cardinality(described) > 0 THEN
        UPDATE {s}.instances i SET name = u.name, version = u.version, parent_instance = u.parent
        FROM unnest(described, names, versions, parents) AS u (key, name, version, parent)
        WHERE i.key = ANY (ARRAY[u.key]);
    END IF;
    IF cardinality(ended) > 0 THEN
        UPDATE {s}.instances i SET status = ended[u.o + 2], ended_at = now_ms
        FROM generate_series(0, cardinality(ended) - 1, 2) AS u (o)
        WHERE i.key = ANY (ARRAY[ended[u.o + 1]]);
    END IF;
    IF cardinality(messages) > 0 THEN
        INSERT INTO {s}.inbox (instance_key, visible_at, position, kind, execution_id, event_id, item)
        SELECT messages[u.n * 6 - 5], messages[u.n * 6 - 4], messages[u.n * 6 - 3], messages[u.n * 6 - 2],
            nullif(messages[u.n * 6 - 1], none), nullif(messages[u.n * 6], none), u.item
        FROM unnest(message_items) WITH ORDINALITY AS u (item, n);
    END IF;
    IF cardinality(events) > 0 THEN
        INSERT INTO {s}.history (instance_key, execution_id, event_id, event)
        SELECT events[u.n * 3 - 2], events[u.n * 3 - 1], events[u.n * 3], u.event
        FROM unnest(event_texts) WITH ORDINALITY AS u (event, n);
    END IF;
    IF cardinality(new_executions) > 0 THEN
        INSERT INTO {s}.executions (instance_key, execution_id,
            status, completed_at, pinned_major, pinned_minor, pinned_patch, event_count, last_event_id,
            history_bytes, output, failure, started_at)
        SELECT
            new_executions[u.n * 10 - 9], new_executions[u.n * 10 - 8], new_executions[u.n * 10 - 7],
            nullif(new_executions[u.n * 10 - 6], none), nullif(new_executions[u.n * 10 - 5], none),
            nullif(new_executions[u.n * 10 - 4], none), nullif(new_executions[u.n * 10 - 3], none),
            new_executions[u.n * 10 - 2], new_executions[u.n * 10 - 1], new_executions[u.n * 10], u.output,
            u.failure, now_ms
        FROM unnest(new_outputs, new_failures) WITH ORDINALITY AS u (output, failure, n);
    END IF;
    IF cardinality(executions) > 0 THEN
        UPDATE {s}.executions e SET
            status = executions[u.n * 10 - 7], completed_at = nullif(executions[u.n * 10 - 6], none),
            pinned_major = nullif(executions[u.n * 10 - 5], none),
            pinned_minor = nullif(executions[u.n * 10 - 4], none),
            pinned_patch = nullif(executions[u.n * 10 - 3], none), event_count = executions[u.n * 10 - 2],
            last_event_id = executions[u.n * 10 - 1], history_bytes = executions[u.n * 10],
            output = coalesce(u.output, e.output), failure = coalesce(u.failure, e.failure)
        FROM unnest(outputs, failures) WITH ORDINALITY AS u (output, failure, n)
        WHERE e.instance_key = ANY (ARRAY[executions[u.n * 10 - 9]])
            AND e.execution_id = executions[u.n * 10 - 8];
    END IF;
    IF cardinality(work) > 0 THEN
        WITH added AS (
            INSERT INTO {s}.work_items (id, instance_id, execution_id, activity_id, name, tag, session_id,
                visible_at, ready_at, lock_nonce, suspect, attempts, item)
            SELECT nextval('{s}.work_ids'), u.instance, work[u.n * 4 - 3], work[u.n * 4 - 2], u.name, u.tag,
                u.session, now_ms, work[u.n * 4 - 1], nullif(work[u.n * 4], none), work[u.n * 4] <> none,
                CASE WHEN work[u.n * 4] = none THEN 0 ELSE 1 END, u.item
            FROM unnest(work_instances, work_names, work_tags, work_sessions, work_items)
                WITH ORDINALITY AS u (instance, name, tag, session, item, n)
            ON CONFLICT (instance_id, execution_id, activity_id) DO NOTHING
            RETURNING id, lock_nonce)
        SELECT array_agg(a.id), array_agg(a.lock_nonce) INTO work_ids, work_nonces
        FROM added a WHERE a.lock_nonce IS NOT NULL;
    END IF;
    clock := (extract(epoch FROM clock_timestamp()) * 1000)::bigint;
END
$$;
