-- The subject and the origin of an action. seq is the order of commits: a writer holds a lock until its commit, so a reader that
-- has seen a number has seen all lower ones.
ALTER TABLE operator_actions ADD COLUMN seq bigint GENERATED ALWAYS AS IDENTITY;
ALTER TABLE operator_actions ADD COLUMN tenant text COLLATE "C" NOT NULL DEFAULT ''; -- the owner of the subject; empty: the fleet
ALTER TABLE operator_actions ADD COLUMN remote text NOT NULL DEFAULT '';
ALTER TABLE operator_actions ADD COLUMN before json;
ALTER TABLE operator_actions ADD COLUMN after json;
CREATE UNIQUE INDEX operator_actions_seq ON operator_actions (seq);
CREATE INDEX operator_actions_tenant ON operator_actions (tenant, id);
CREATE INDEX operator_actions_at ON operator_actions (at);

-- The number of changes of a tenant's grants, and the entry of a tenants file that last set them.
ALTER TABLE tenants ADD COLUMN version bigint NOT NULL DEFAULT 0;
ALTER TABLE tenants ADD COLUMN entry text NOT NULL DEFAULT '';
