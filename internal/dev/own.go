package dev

import (
	"os"
	"slices"
	"strings"
)

// ownSettings say where a fleet's parts are and who they are. A fleet on one machine brings its own parts, so what this
// process was told of those of another fleet is kept from its programs.
var ownSettings = []string{
	"ASSAY_CONTAINERD_ADDRESS", "ASSAY_DATABASE_URL", "ASSAY_ENVIRONMENTS", "ASSAY_IMAGE_ARCHIVES", "ASSAY_LISTEN",
	"ASSAY_METRICS_LISTEN", "ASSAY_NATS_DIR", "ASSAY_NATS_URL", "ASSAY_OBJECTS_URL", "ASSAY_OIDC_AUDIENCE", "ASSAY_OIDC_CLAIM",
	"ASSAY_OIDC_CLIENT_ID", "ASSAY_OIDC_CLIENT_SECRET", "ASSAY_OIDC_GROUPS", "ASSAY_OIDC_ISSUER", "ASSAY_PUBLIC_URL", "ASSAY_RUNTIME",
	"ASSAY_SECRETS_KEY", "ASSAY_STATE_DIR", "ASSAY_STREAM_REPLICAS", "ASSAY_TLS_CERT", "ASSAY_TLS_KEY", "ASSAY_WORKERS_KEY",
	"ASSAY_WORKERS_REFUSED", "ASSAY_WORKER_ID", "ASSAY_WORKER_TOKEN",
}

// credentials are what a worker is not told: it sits beside untrusted code.
var credentials = []string{"ASSAY_DATABASE_URL", "ASSAY_OPERATOR_TOKENS", "ASSAY_SECRETS_KEY", "ASSAY_TOKENS", "ASSAY_WORKERS_KEY"}

// environment is what a program is told: by this process's environment, if it is not the fleet's own to say, and then by
// said, of which the last word of a name counts.
func environment(program string, said []string) []string {
	env := append(slices.DeleteFunc(os.Environ(), isOneOf(ownSettings)), said...)
	if program == "worker" {
		env = slices.DeleteFunc(env, isOneOf(credentials))
	}
	return env
}

// isOneOf picks out what is said of these names.
func isOneOf(names []string) func(string) bool {
	return func(env string) bool {
		name, _, _ := strings.Cut(env, "=")
		return slices.Contains(names, name)
	}
}
