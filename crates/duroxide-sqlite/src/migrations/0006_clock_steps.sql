-- When the last message that is not delayed arrived, and no earlier than the one before it, whatever the clock said.
ALTER TABLE instances ADD COLUMN last_arrival INTEGER NOT NULL DEFAULT 0;
UPDATE instances SET last_arrival = coalesce(
        (SELECT max(n.visible_at) FROM inbox n WHERE n.instance_key = instances.key AND n.kind <> 5), 0)
    WHERE inbox_count > 0;

-- When a work item was last given back with a delay. NULL: it waits for nothing but a worker.
ALTER TABLE work_items ADD COLUMN delayed_at INTEGER;
UPDATE work_items SET delayed_at = 0 WHERE visible_at > CAST(strftime('%s', 'now') AS INTEGER) * 1000;
