-- The number of each key's last change: a dispatcher that knows all changes up to a number reads those after it. The trigger
-- numbers what every program does, those of the last release included, in the order in which it becomes visible.
ALTER TABLE keys ADD COLUMN changed bigint NOT NULL DEFAULT 0;
CREATE INDEX keys_changed ON keys (changed);
CREATE FUNCTION assay_number_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE key_changes SET n = n + 1 WHERE one RETURNING n INTO NEW.changed;
    RETURN NEW;
END $$;
CREATE TRIGGER keys_numbered BEFORE INSERT OR UPDATE OF revoked_at, expires_at, role, label, policy ON keys
    FOR EACH ROW EXECUTE FUNCTION assay_number_key();
