-- What the statements need that write what a group of calls changed of one instance.

-- Rolls the transaction back: a row is not as the caller read or remembered it.
CREATE FUNCTION {s}.conflict () RETURNS BIGINT LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'duroxide: another process changed these rows; the transaction is repeated'
        USING ERRCODE = 'serialization_failure';
END
$$;

-- Reserves the id of an instance that is to begin, by the number of its advisory lock. Whether nobody uses the id,
-- and no message waits for it.
--
-- Whoever had to wait for the lock looks after it: the statement that calls this may have begun before.
CREATE FUNCTION {s}.reserve_id (reserved BIGINT, id TEXT) RETURNS BOOLEAN LANGUAGE plpgsql AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock(reserved) THEN
        PERFORM pg_advisory_xact_lock(reserved);
    END IF;
    RETURN NOT EXISTS (SELECT 1 FROM {s}.instances i WHERE i.instance_id = id)
        AND NOT EXISTS (SELECT 1 FROM {s}.early_messages m WHERE m.instance_id = id);
END
$$;
