package admit_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/assay-run/assay/internal/dispatcher/admit"
	"github.com/assay-run/assay/pkg/job"
)

// keyOf admits a job and returns its cache key.
func keyOf(t *testing.T, a *admit.Admitter, raw string) []byte {
	t.Helper()
	j, err := a.Job(context.Background(), "acme", "", []byte(raw))
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return j.CacheKey
}

// anySecret is a keeper that has every secret.
type anySecret struct{}

func (anySecret) Check(context.Context, string, map[string]string) error { return nil }

func withResultCache(t *testing.T) *admit.Admitter {
	a := newAdmitter(t)
	a.Secrets = anySecret{}
	a.Room = func(context.Context, string, string, int) error { return nil }
	return a
}

func TestCacheKey(t *testing.T) {
	t.Parallel()
	a := withResultCache(t)
	const program = `"program":{"python":{"code":"print(x)","variables":{"x":1,"y":2}}}`
	base := keyOf(t, a, `{"cache":true,`+program+`}`)
	if len(base) != 32 {
		t.Fatalf("key %x", base)
	}
	for _, same := range []string{
		`{` + program + `,"cache":true,"image":"python"}`,
		`{"cache":true,"name":"n","labels":{"a":"b"},"priority":7,"expires_in":"1h","retry":{"max_attempts":3,"on":["failed"]},` + program + `}`,
		`{"cache":true,"policy":{"wall":"30s","memory":"256Mi"},` + program + `}`, // the defaults, explicitly
		`{"cache":true,"program":{"python":{"variables":{"y":2,"x":1},"code":"print(x)"}}}`,
	} {
		if got := keyOf(t, a, same); !bytes.Equal(got, base) {
			t.Errorf("%s has another key", same)
		}
	}
	seen := map[string]string{string(base): "the first"}
	for _, other := range []string{
		`{"cache":true,"image":"other",` + program + `}`,
		`{"cache":true,"policy":{"wall":"31s"},` + program + `}`,
		`{"cache":true,"files":{"/workspace/a":{"text":"1"}},` + program + `}`,
		`{"cache":true,"files":{"/workspace/a":{"text":"2"}},` + program + `}`,
		`{"cache":true,"files":{"/workspace/b":{"text":"1"}},` + program + `}`,
		`{"cache":true,"program":{"python":{"code":"print(x)","variables":{"x":1,"y":3}}}}`,
		`{"cache":true,"program":{"python":{"code":"print(x) ","variables":{"x":1,"y":2}}}}`,
		`{"cache":true,"program":{"command":{"argv":["true"]}}}`,
		`{"cache":true,"requires":{"gpu":"a"},` + program + `}`,
	} {
		got := string(keyOf(t, a, other))
		if seen[got] != "" {
			t.Errorf("%s has the key of %s", other, seen[got])
		}
		seen[got] = other
	}
	for _, none := range []string{`{` + program + `}`, `{"cache":false,` + program + `}`, `{"policy":{"network":{"mode":"open"}},` + program + `}`} {
		if got := keyOf(t, a, none); got != nil {
			t.Errorf("%s has a key", none)
		}
	}
}

func TestWhatIsNotRepeatable(t *testing.T) {
	t.Parallel()
	a := withResultCache(t)
	for policy, why := range map[string]string{
		`{"network":{"mode":"open"}}`:                              "network",
		`{"network":{"mode":"allow","allow":["example.org:443"]}}`: "network",
		`{"packages":["numpy==2.0.0"]}`:                            "packages",
		`{"artifacts":{"paths":["/workspace/**"]}}`:                "artifacts",
		`{"env":{"secrets":{"TOKEN":"known"}}}`:                    "secrets",
	} {
		_, err := a.Job(context.Background(), "acme", "", []byte(`{"cache":true,"policy":`+policy+`,"program":{"python":{"code":"1"}}}`))
		var f *job.FieldError
		if !errors.As(err, &f) || f.Field != "cache" || !strings.Contains(f.Problem, why) {
			t.Errorf("%s: %v, want an error about cache that says %s", policy, err, why)
		}
	}
}
