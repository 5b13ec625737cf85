-- Whether a message was sent with a delay. What is not delayed, and no timer (kind 5), is ready as soon as it is here, even if the
-- server's clock was set back since then. NULL: it was not, or a build sent it that does not write this column.
ALTER TABLE {s}.inbox ADD COLUMN delayed BOOLEAN;
UPDATE {s}.inbox SET delayed = TRUE
    WHERE kind <> 5 AND visible_at > (extract(epoch FROM clock_timestamp()) * 1000)::bigint;
