package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/assay-run/assay/pkg/queue/identity"
)

const keysUsage = `usage; all but the first two commands read ASSAY_WORKERS_KEY:
  dispatcher key                  print a new key for ASSAY_WORKERS_KEY
  dispatcher secrets              print a new .env for docker-compose.yml, with all secrets of a fleet
  dispatcher nats                 print the authorization section of the NATS server's configuration
  dispatcher env POOL             print the key and a join token as variables, for deploy/nats/nats.conf
  dispatcher token WORKER POOL    print the ASSAY_WORKER_TOKEN of one worker
  dispatcher token POOL           print a join token for any worker of the pool; the worker's id gets a suffix`

// keys runs the commands about the workers' key, and reports whether the arguments request one.
func keys(args []string, out io.Writer) (asked bool, err error) {
	if len(args) == 0 || !slices.Contains([]string{"key", "secrets", "nats", "env", "token"}, args[0]) {
		return false, nil
	}
	if args[0] == "key" && len(args) == 1 {
		_, err = fmt.Fprintln(out, identity.NewKey())
		return true, err
	}
	if args[0] == "secrets" && len(args) == 1 {
		return true, composeSecrets(out)
	}
	k, err := workersKey(os.Getenv("ASSAY_WORKERS_KEY"))
	switch {
	case err != nil:
		return true, fmt.Errorf("ASSAY_WORKERS_KEY: %w", err)
	case k == nil:
		return true, errors.New(keysUsage)
	case args[0] == "nats" && len(args) == 1:
		_, err = io.WriteString(out, authorization(k))
	case args[0] == "env" && len(args) == 2:
		issuer, dispatcher := k.Public()
		_, err = fmt.Fprintf(out, "ASSAY_WORKERS_KEY=%s\nASSAY_NATS_ISSUER=%s\nASSAY_NATS_DISPATCHER=%s\nASSAY_WORKER_TOKEN=%s\n",
			strings.TrimSpace(os.Getenv("ASSAY_WORKERS_KEY")), issuer, dispatcher, k.JoinToken(args[1]))
	case args[0] == "token" && len(args) == 2:
		_, err = fmt.Fprintln(out, k.JoinToken(args[1]))
	case args[0] == "token" && len(args) == 3:
		_, err = fmt.Fprintln(out, k.Token(args[1], args[2]))
	default:
		err = errors.New(keysUsage)
	}
	return true, err
}

// authorization returns the NATS server's configuration, without secrets.
func authorization(k *identity.Key) string {
	issuer, dispatcher := k.Public()
	return fmt.Sprintf("authorization {\n  timeout: 3\n  users: [{nkey: %[2]s}]\n  auth_callout {\n    issuer: %[1]s\n    auth_users: [%[2]s]\n  }\n}\n", issuer, dispatcher)
}
