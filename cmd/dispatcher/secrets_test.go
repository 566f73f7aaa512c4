package main

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/queue/identity"
)

// The file that `dispatcher secrets` makes has what the compose file asks for and the
// example explains, nothing weak, nothing twice the same, and dispatchers take it.
func TestSecretsOfCompose(t *testing.T) {
	made := variablesOf(t, secretsMade(t))
	again := variablesOf(t, secretsMade(t))
	example, err := os.ReadFile("../../.env.example")
	if err != nil {
		t.Fatal(err)
	}
	explained := variablesOf(t, string(example))
	file, err := os.ReadFile("../../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range made {
		if _, ok := explained[name]; !ok {
			t.Errorf(".env.example does not explain %s", name)
		}
		if public := name == "ASSAY_URL"; !public && (len(value) < 20 || again[name] == value) {
			t.Errorf("%s=%s is short, or the same each time", name, value)
		}
	}
	for name, value := range explained {
		if name != "ASSAY_URL" && value != "" {
			t.Errorf(".env.example fills in %s", name)
		}
	}
	asked := regexp.MustCompile(`\$\{([A-Z_]+)(:?[?-])?`).FindAllStringSubmatch(string(file), -1)
	if len(asked) < 20 {
		t.Fatalf("the compose file asks for %v", asked)
	}
	for _, a := range asked {
		_, ok := made[a[1]]
		if a[2] != ":-" && !ok {
			t.Errorf("the compose file must have %s, which is not made", a[1])
		}
		if !regexp.MustCompile(`(?m)^#?` + a[1] + `=`).Match(example) {
			t.Errorf(".env.example does not name %s", a[1])
		}
	}
}

// What was made fits together: dispatchers parse it, and the worker's token is of its key.
func TestSecretsFit(t *testing.T) {
	made := variablesOf(t, secretsMade(t))
	for name, value := range made {
		t.Setenv(name, value)
	}
	t.Setenv("ASSAY_DATABASE_URL", "postgres://assay:"+made["ASSAY_POSTGRES_PASSWORD"]+"@postgres/assay")
	if _, err := parse([]string{"--listen=:8080", "--nats-url=nats://nats:4222"}, &bytes.Buffer{}); err != nil {
		t.Error(err)
	}
	k, err := identity.ParseKey(made["ASSAY_WORKERS_KEY"])
	if err != nil {
		t.Fatal(err)
	}
	issuer, dispatcher := k.Public()
	if made["ASSAY_NATS_ISSUER"] != issuer || made["ASSAY_NATS_DISPATCHER"] != dispatcher || made["ASSAY_WORKER_TOKEN"] != k.JoinToken(composePool) {
		t.Error("the identities are not those of the key")
	}
	if token, _, _ := strings.Cut(made["ASSAY_TOKENS"], "="); token != made["ASSAY_TOKEN"] {
		t.Error("ASSAY_TOKEN is not one of ASSAY_TOKENS")
	}
}

func secretsMade(t *testing.T) string {
	t.Helper()
	var out bytes.Buffer
	if asked, err := keys([]string{"secrets"}, &out); !asked || err != nil {
		t.Fatal(asked, err)
	}
	return out.String()
}

// variablesOf reads lines NAME=VALUE, as a shell and compose do.
func variablesOf(t *testing.T, text string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if _, twice := found[name]; !ok || twice || !regexp.MustCompile(`^[A-Z_]+$`).MatchString(name) {
			t.Fatalf("not a variable, or twice: %q", line)
		}
		if strings.ContainsFunc(value, func(r rune) bool { return slices.Contains([]rune(" $'\"`\\#&;|<>()"), r) }) {
			t.Errorf("a shell or compose reads %q in another way", line)
		}
		found[name] = value
	}
	return found
}
