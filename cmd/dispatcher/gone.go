package main

import "github.com/assay-run/assay/internal/settings"

// gone lists removed settings of dispatchers.
var gone = settings.Removed{
	"orphan-age":        "artifacts that belong to no record are removed when they are a day old",
	"callback-patience": "a callback is tried for a day after the end of its batch",
	"body-patience":     "a body may stand still for 15 seconds",

	"blob-age":             "inputs are kept for as long as history: --retention",
	"callback-allow":       "say it in --egress-private of the dispatchers",
	"database-connections": "say pool_max_conns in --database-url, as in postgres://…?pool_max_conns=32",
	"insecure-no-tokens":   "say --insecure=no-tokens",
	"insecure-open-nats":   "say --insecure=open-nats",
	"body-memory":          "it is a quarter of the memory that the dispatcher's control group allows, else an eighth of the host's, from 128Mi to 1Gi; the log says it at start",
	"requests":             "it follows from the memory for bodies (8,192 for 256Mi) and from the limit of open files (ulimit -n); the log says it at start",
	"migrate":              "an up-to-date schema is left alone, and an older one is migrated; give --database-url a role that may not change the schema if that is not to be, and run \"dispatcher migrate\" with one that may",
	"no-migrate":           "an up-to-date schema is left alone; where an older one is not to be migrated at start, give --database-url a role that may not change the schema, and run \"dispatcher migrate\" with one that may",
	"debug-listen":         "/debug/pprof/ is at --listen, for operators: token=tenant:operator in --tokens",
	"max-batch":            "a batch of lines may be as large as --spool",
	"reads":                "it follows from the connections to PostgreSQL and from the cores",
	"nats-creds":           "put it into --nats-dir, as user.creds",
	"nats-nkey":            "put it into --nats-dir, as user.nk",
	"nats-ca":              "put it into --nats-dir, as ca.crt",
	"nats-cert":            "put it into --nats-dir, as tls.crt",
	"nats-key":             "put it into --nats-dir, as tls.key",
	"tenant-queued":        "say queued in the ceiling of the name * in --tenants-file",
	"tenant-batches":       "say batches in the ceiling of the name * in --tenants-file",
	"operator-tokens":      "say token=tenant:operator in --tokens",
	"stream-remake-after":  "a stream of one replica that stores nothing for two minutes is made anew; one of three, at a cluster, never is",
}
