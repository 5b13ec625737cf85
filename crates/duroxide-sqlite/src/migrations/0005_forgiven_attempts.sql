-- How many attempts of an activity were taken back because it ran for a while beside nothing else and did no harm.
ALTER TABLE work_items ADD COLUMN forgiven INTEGER NOT NULL DEFAULT 0;
