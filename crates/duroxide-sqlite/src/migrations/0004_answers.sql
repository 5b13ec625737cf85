-- The fingerprint of the input that an instance was started with. NULL in rows of builds that do not write it.
ALTER TABLE instances ADD COLUMN first_input INTEGER;

-- When the next turn of an instance was last given back for a cause, and the JSON of that cause. NULL: not since a turn
-- of it was committed. A build that does not know these columns leaves them as they are: a cause that is older than
-- `updated_at` is outdated.
ALTER TABLE instances ADD COLUMN bounced_at INTEGER;
ALTER TABLE instances ADD COLUMN bounce TEXT;
CREATE INDEX instances_bounced ON instances (bounced_at) WHERE bounced_at IS NOT NULL;

-- Since when a work item waits that was given back with a delay: `visible_at` as it was before the first delay.
ALTER TABLE work_items ADD COLUMN waiting_since INTEGER;
ALTER TABLE work_items ADD COLUMN bounced_at INTEGER;
ALTER TABLE work_items ADD COLUMN bounce TEXT;
CREATE INDEX work_items_bounced ON work_items (bounced_at) WHERE bounced_at IS NOT NULL;
