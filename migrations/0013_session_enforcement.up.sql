-- The mechanisms that enforce the policy of a session; null for older sessions.
ALTER TABLE sessions ADD COLUMN enforcement text;
