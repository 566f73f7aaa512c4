package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadTenants(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`[{"name":"a","weight":2,"max_running":5,"label_caps":{"problem":2},"ceiling":{"above":"clamp","memory":"1Gi","network":"allow"}},{"name":"b"}]`: "",
		`[]`:                       "",
		`{}`:                       "must be a JSON list",
		`[{"name":"a","wight":2}]`: "tenants[0].wight",
		`[{"weight":2}]`:           "tenants[0].name",
		`[{"name":"a","label_caps":{"problem":0}}]`:              "label_caps.problem",
		`[{"name":"a","ceiling":{"memory":"lots"}}]`:             "ceiling.memory",
		`[{"name":"a","ceiling":{"above":"ignore"}}]`:            "ceiling.above",
		`[{"name":"a"},{"name":"b","ceiling":{"memory":"1Ki"}}]`: "tenants[1] (b): ceiling.memory",
	} {
		file := filepath.Join(t.TempDir(), "tenants.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := readTenants(file)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
