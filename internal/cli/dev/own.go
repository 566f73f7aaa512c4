package dev

import (
	"os"
	"slices"
	"strings"
)

// ownSettings are the addresses and credentials of a fleet's components. A fleet on one machine
// starts its own components, so its programs do not inherit these settings of another fleet from
// this process.
var ownSettings = []string{
	"ASSAY_CONTAINERD_ADDRESS", "ASSAY_DATABASE_URL", "ASSAY_ENVIRONMENTS", "ASSAY_IMAGE_ARCHIVES", "ASSAY_LISTEN",
	"ASSAY_METRICS_LISTEN", "ASSAY_NATS_DIR", "ASSAY_NATS_URL", "ASSAY_OBJECTS_URL", "ASSAY_OIDC_AUDIENCE", "ASSAY_OIDC_CLAIM",
	"ASSAY_OIDC_CLIENT_ID", "ASSAY_OIDC_CLIENT_SECRET", "ASSAY_OIDC_GROUPS", "ASSAY_OIDC_ISSUER", "ASSAY_PUBLIC_URL", "ASSAY_RUNTIME",
	"ASSAY_SECRETS_KEY", "ASSAY_STATE_DIR", "ASSAY_STREAM_REPLICAS", "ASSAY_TLS_CERT", "ASSAY_TLS_KEY", "ASSAY_WORKERS_KEY",
	"ASSAY_WORKERS_REFUSED", "ASSAY_WORKER_ID", "ASSAY_WORKER_TOKEN",
}

// credentials are not passed to a worker, because it runs beside untrusted code.
var credentials = []string{"ASSAY_DATABASE_URL", "ASSAY_OPERATOR_TOKENS", "ASSAY_SECRETS_KEY", "ASSAY_TOKENS", "ASSAY_WORKERS_KEY"}

// environment returns the environment of a program: this process's without ownSettings, then said. The last value of
// a name counts. A worker gets no credentials.
func environment(program string, said []string) []string {
	env := append(slices.DeleteFunc(os.Environ(), isOneOf(ownSettings)), said...)
	if program == "worker" {
		env = slices.DeleteFunc(env, isOneOf(credentials))
	}
	return env
}

// isOneOf selects the variables with these names.
func isOneOf(names []string) func(string) bool {
	return func(env string) bool {
		name, _, _ := strings.Cut(env, "=")
		return slices.Contains(names, name)
	}
}
