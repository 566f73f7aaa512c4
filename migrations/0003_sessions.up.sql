-- Sessions: live interpreters on workers. The worker has the state of a live session; the
-- row has its location and its end.
CREATE TABLE sessions (
    id         uuid PRIMARY KEY,
    tenant_id  integer NOT NULL REFERENCES tenants,
    worker     text NOT NULL,
    parent     uuid,
    spec       text NOT NULL,
    state      text NOT NULL DEFAULT 'live' CHECK (state IN ('live', 'ended')),
    outcome    text,
    message    text,
    created_at timestamptz NOT NULL DEFAULT now(),
    ended_at   timestamptz,
    CHECK ((state = 'ended') = (outcome IS NOT NULL AND ended_at IS NOT NULL))
);
CREATE INDEX sessions_live ON sessions (worker) WHERE state = 'live';
CREATE INDEX sessions_tenant ON sessions (tenant_id, id);

-- Executions in sessions, with their results.
CREATE TABLE executes (
    session_id uuid NOT NULL REFERENCES sessions ON DELETE CASCADE,
    id         uuid NOT NULL,
    code       text NOT NULL,
    result     text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (session_id, id)
);
