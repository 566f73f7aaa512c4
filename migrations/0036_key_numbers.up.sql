-- The number of each key's last change. A dispatcher that has all changes up to a number reads the later ones. The trigger
-- numbers the changes of every program, also of the previous release, in the order in which they become visible.
ALTER TABLE keys ADD COLUMN changed bigint NOT NULL DEFAULT 0;
CREATE INDEX keys_changed ON keys (changed);
CREATE FUNCTION assay_number_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE key_changes SET n = n + 1 WHERE one RETURNING n INTO NEW.changed;
    RETURN NEW;
END $$;
CREATE TRIGGER keys_numbered BEFORE INSERT OR UPDATE OF revoked_at, expires_at, role, label, policy ON keys
    FOR EACH ROW EXECUTE FUNCTION assay_number_key();
