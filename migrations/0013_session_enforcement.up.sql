-- What enforces the policy of a session; null for those from before.
ALTER TABLE sessions ADD COLUMN enforcement text;
