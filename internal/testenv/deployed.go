package testenv

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Deployed returns the names ASSAY_… of all variables that the compose file sets for a service, and
// those in templates of the chart.
func Deployed(t *testing.T, service string, templates ...string) []string {
	t.Helper()
	read := func(elem ...string) string {
		raw, err := os.ReadFile(filepath.Join(append([]string{RepoRoot(t)}, elem...)...))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	_, text, ok := strings.Cut(read("docker-compose.yml"), "\n  "+service+":\n")
	if !ok {
		t.Fatalf("the compose file has no service %s", service)
	}
	if next := regexp.MustCompile(`\n(  )?[a-z]+:`).FindStringIndex(text); next != nil {
		text = text[:next[0]]
	}
	text = regexp.MustCompile(`\$\{[^}]*\}`).ReplaceAllString(text, "") // names inside a value refer to .env
	for _, file := range templates {
		text += read("deploy", "helm", "assay", "templates", filepath.FromSlash(file))
	}
	return Variables(text)
}

// Variables returns the names ASSAY_… in a text.
func Variables(text string) []string {
	return regexp.MustCompile(`ASSAY_[A-Z_]+`).FindAllString(text, -1)
}
