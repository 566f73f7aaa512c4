package main

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"strings"

	"github.com/assay-run/assay/pkg/queue/identity"
)

// composePool is the pool of the compose file's workers.
const composePool = "default"

// composeSecrets writes an .env for docker-compose.yml with new secrets for a fleet. The output is
// the only copy. It has no quotes, so a shell can read it, too; no value needs them.
func composeSecrets(out io.Writer) error {
	key := identity.NewKey()
	k, err := identity.ParseKey(key)
	if err != nil {
		return err
	}
	seal := make([]byte, 32)
	_, _ = rand.Read(seal) // never fails
	issuer, dispatcher := k.Public()
	token, operator := newSecret(), newSecret()
	_, err = fmt.Fprintf(out, `# Made by "dispatcher secrets"; .env.example describes each variable. Keep it: the volumes of the fleet open only with it.
ASSAY_TOKENS=%s=default,%s=default:operator
ASSAY_POSTGRES_PASSWORD=%s
ASSAY_OBJECTS_ACCESS=%s
ASSAY_OBJECTS_SECRET=%s
ASSAY_SECRETS_KEY=%s
ASSAY_WORKERS_KEY=%s
ASSAY_NATS_ISSUER=%s
ASSAY_NATS_DISPATCHER=%s
ASSAY_WORKER_TOKEN=%s
ASSAY_GRAFANA_PASSWORD=%s
ASSAY_URL=http://127.0.0.1:8080
ASSAY_TOKEN=%s
#COMPOSE_PROFILES=observe
#OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4317
`, token, operator, newSecret(), newSecret()[:20], newSecret(), base64.StdEncoding.EncodeToString(seal), key, issuer, dispatcher,
		k.JoinToken(composePool), newSecret(), token)
	return err
}

// newSecret returns 130 random bits as letters and digits, which are safe in a URL.
func newSecret() string { return strings.ToLower(rand.Text()) }
