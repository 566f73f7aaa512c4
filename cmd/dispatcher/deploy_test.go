package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What the chart and the compose file set is what this program reads: a variable
// of another name would be ignored in silence.
func TestDeploymentsSetKnownVariables(t *testing.T) {
	var help bytes.Buffer
	if _, err := parse([]string{"--help"}, &help); err != errHelp {
		t.Fatal(err)
	}
	for _, command := range []func(context.Context, []string, io.Writer) (bool, error){migrate, issue, check} {
		for _, name := range []string{"migrate", "issue", "check"} {
			if _, err := command(t.Context(), []string{name, "--help"}, &help); err != nil {
				t.Fatal(err)
			}
		}
	}
	known := variables(help.String())
	if len(known) < 5 {
		t.Fatalf("help names only %v", known)
	}
	for _, name := range variables(deployed(t)) {
		if !slices.Contains(known, name) {
			t.Errorf("a deployment sets %s, which is not a variable of this program", name)
		}
	}
}

// deployed is what the deployments say about dispatcher and to every program.
func deployed(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	for _, file := range []string{"_names.tpl", "_dispatcher.tpl", "dispatcher.yaml", "migrations.yaml", "identities.yaml", "tests/run.yaml"} {
		raw, err := os.ReadFile("../../deploy/helm/assay/templates/" + file)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(raw)
	}
	raw, err := os.ReadFile("../../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	_, service, ok := strings.Cut(string(raw), "\n  dispatcher:\n")
	if !ok {
		t.Fatal("the compose file has no service dispatcher")
	}
	if next := regexp.MustCompile(`\n(  )?[a-z]+:`).FindStringIndex(service); next != nil {
		service = service[:next[0]]
	}
	// What a value is taken from are names of .env.
	return text.String() + regexp.MustCompile(`\$\{[^}]*\}`).ReplaceAllString(service, "")
}

func variables(text string) []string {
	return regexp.MustCompile(`ASSAY_[A-Z_]+`).FindAllString(text, -1)
}
