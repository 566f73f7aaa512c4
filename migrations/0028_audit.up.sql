-- What an action was done to, and from where. seq is the order in which actions were committed: whoever writes one holds a lock
-- until then, so a reader that has seen a number has seen all below it.
ALTER TABLE operator_actions ADD COLUMN seq bigint GENERATED ALWAYS AS IDENTITY;
ALTER TABLE operator_actions ADD COLUMN tenant text COLLATE "C" NOT NULL DEFAULT ''; -- whose thing it was; empty: the fleet's
ALTER TABLE operator_actions ADD COLUMN remote text NOT NULL DEFAULT '';
ALTER TABLE operator_actions ADD COLUMN before json;
ALTER TABLE operator_actions ADD COLUMN after json;
CREATE UNIQUE INDEX operator_actions_seq ON operator_actions (seq);
CREATE INDEX operator_actions_tenant ON operator_actions (tenant, id);
CREATE INDEX operator_actions_at ON operator_actions (at);

-- How often what a tenant is granted was changed, and the entry of a file of tenants that it was last told by.
ALTER TABLE tenants ADD COLUMN version bigint NOT NULL DEFAULT 0;
ALTER TABLE tenants ADD COLUMN entry text NOT NULL DEFAULT '';
