-- How many attempts of an activity were taken back because it ran for a while beside nothing else and did no harm.
ALTER TABLE {s}.work_items ADD COLUMN forgiven BIGINT NOT NULL DEFAULT 0;
