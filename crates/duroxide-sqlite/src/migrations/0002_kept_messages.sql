-- What was in the inbox of an instance that failed and may go on after a fix, in its order.
CREATE TABLE kept_messages (
    instance_key INTEGER NOT NULL,
    position     INTEGER NOT NULL,
    item         TEXT    NOT NULL,            -- JSON
    PRIMARY KEY (instance_key, position)
) STRICT, WITHOUT ROWID;
