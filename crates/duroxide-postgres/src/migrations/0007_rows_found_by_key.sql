-- The function as it was, but for the rows that it changes and deletes, which it now finds one by one. For a join with a
-- table in which vacuum found few live rows the planner reads the whole table, and with it all dead rows that no vacuum may
-- remove while somebody keeps a snapshot. Work items and inboxes come and go, so that their tables mostly look empty.
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
        written := 0;
        FOR o IN 0 .. cardinality(queues) - 1 BY 18 LOOP
            UPDATE {s}.queues q SET
                revision = q.revision + 1, ended = queues[o + 3] <> 0, updated_at = queues[o + 4],
                current_execution_id = queues[o + 5], pinned_key = queues[o + 6],
                has_kv = queues[o + 7] <> 0, inbox_count = queues[o + 8], next_position = queues[o + 9],
                not_before = queues[o + 10], ready_at = nullif(queues[o + 11], none),
                suspect = queues[o + 12] <> 0, suspect_before = queues[o + 13] <> 0,
                lock_nonce = nullif(queues[o + 14], none), lock_visible_at = nullif(queues[o + 15], none),
                lock_position = nullif(queues[o + 16], none), lock_watermark = nullif(queues[o + 17], none),
                lock_count = nullif(queues[o + 18], none),
                route_name = coalesce(routes[o / 18 + 1], q.route_name),
                route_version = coalesce(route_versions[o / 18 + 1], q.route_version)
            WHERE q.key = queues[o + 1] AND q.revision = queues[o + 2];
            written := written + FOUND::int;
        END LOOP;
        IF written <> cardinality(queues) / 18 THEN
            RAISE EXCEPTION 'duroxide: another process changed these rows; the transaction is repeated'
                USING ERRCODE = 'serialization_failure';
        END IF;
    END IF;
    IF cardinality(gone_work) > 0 THEN
        written := 0;
        FOR o IN 0 .. cardinality(gone_work) - 1 BY 2 LOOP
            DELETE FROM {s}.work_items w
            WHERE w.id = gone_work[o + 1] AND w.lock_nonce IS NOT DISTINCT FROM nullif(gone_work[o + 2], none);
            written := written + FOUND::int;
        END LOOP;
        IF written <> cardinality(gone_work) / 2 THEN
            RAISE EXCEPTION 'duroxide: another process changed these rows; the transaction is repeated'
                USING ERRCODE = 'serialization_failure';
        END IF;
    END IF;
    IF cardinality(covered) > 0 THEN
        FOR o IN 0 .. cardinality(covered) - 1 BY 4 LOOP
            DELETE FROM {s}.inbox n
            WHERE n.instance_key = covered[o + 1] AND n.position < covered[o + 4]
                AND (n.visible_at, n.position) <= (covered[o + 2], covered[o + 3]);
        END LOOP;
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
        FOR n IN 1 .. cardinality(described) LOOP
            UPDATE {s}.instances i SET name = names[n], version = versions[n], parent_instance = parents[n]
            WHERE i.key = described[n];
        END LOOP;
    END IF;
    IF cardinality(ended) > 0 THEN
        FOR o IN 0 .. cardinality(ended) - 1 BY 2 LOOP
            UPDATE {s}.instances i SET status = ended[o + 2], ended_at = now_ms WHERE i.key = ended[o + 1];
        END LOOP;
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
        FOR n IN 1 .. cardinality(executions) / 10 LOOP
            UPDATE {s}.executions e SET
                status = executions[n * 10 - 7], completed_at = nullif(executions[n * 10 - 6], none),
                pinned_major = nullif(executions[n * 10 - 5], none),
                pinned_minor = nullif(executions[n * 10 - 4], none),
                pinned_patch = nullif(executions[n * 10 - 3], none), event_count = executions[n * 10 - 2],
                last_event_id = executions[n * 10 - 1], history_bytes = executions[n * 10],
                output = coalesce(outputs[n], e.output), failure = coalesce(failures[n], e.failure)
            WHERE e.instance_key = executions[n * 10 - 9] AND e.execution_id = executions[n * 10 - 8];
        END LOOP;
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
