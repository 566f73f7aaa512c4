package dispatcher

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/store"
)

func TestOwnArtifacts(t *testing.T) {
	id, other := job.NewID(), job.NewID()
	key := func(id job.ID, lease job.Lease) string {
		k, err := object.ArtifactKey("acme", id, lease, "/workspace/out")
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	blob, err := object.BlobKey("acme", fmt.Sprintf("sha256:%064x", 1))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		result string
		ok     bool
	}{
		"an output":           {fmt.Sprintf(`{"stdout":{"text":"x","stored":{"object":%q}}}`, key(id, 7)), true},
		"another's output":    {fmt.Sprintf(`{"stderr":{"stored":{"object":%q}}}`, key(other, 7)), false},
		"output of a step":    {fmt.Sprintf(`{"steps":[{"stdout":{"stored":{"object":%q}}}]}`, key(id, 7)), true},
		"another's step":      {fmt.Sprintf(`{"steps":[{},{"stderr":{"stored":{"object":%q}}}]}`, key(other, 7)), false},
		"stored nowhere":      {`{"stdout":{"stored":{}}}`, false},
		"only said so":        {`{"stdout":{"text":"{\"stored\":{}}"}}`, true},
		"none":                {`{"stdout":{"text":"x"}}`, true},
		"empty":               {`{"artifacts":[]}`, true},
		"its own":             {fmt.Sprintf(`{"artifacts":[{"object":%q}]}`, key(id, 7)), true},
		"of another job":      {fmt.Sprintf(`{"artifacts":[{"object":%q},{"object":%q}]}`, key(id, 7), key(other, 7)), false},
		"of another attempt":  {fmt.Sprintf(`{"artifacts":[{"object":%q}]}`, key(id, 6)), false},
		"a blob":              {fmt.Sprintf(`{"artifacts":[{"object":%q}]}`, blob), false},
		"nothing":             {`{"artifacts":[{"path":"/x"}]}`, false},
		"a key in capitals":   {fmt.Sprintf(`{"Artifacts":[{"OBJECT":%q}]}`, key(other, 7)), false},
		"a key with escapes":  {fmt.Sprintf(`{"\u0061rtifacts":[{"\u006fbject":%q}]}`, key(other, 7)), false},
		"names as texts":      {`{"enforcement":[{"capability":"artifacts","mechanism":"object"}]}`, true},
		"a way out of itself": {fmt.Sprintf(`{"artifacts":[{"object":"acme/%s/07/x"}]}`, id), false},
	} {
		f := store.Finish{LeaseRef: store.LeaseRef{Job: id, Lease: 7}, Result: []byte(c.result)}
		if err := ownArtifacts(&f); (err == nil) != c.ok || err != nil && !errors.Is(err, job.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestResultsAboveTheLimitAreRefused checks that the dispatcher rejects a result above the limit. It does not rely on
// the worker's own limit.
func TestResultsAboveTheLimitAreRefused(t *testing.T) {
	f := store.Finish{LeaseRef: store.LeaseRef{Job: job.NewID(), Lease: 7}, Result: make([]byte, job.MaxResult+1)}
	_, err := new(recorder).HandleFinish(t.Context(), control.FinishRequest{Worker: "w", Finishes: []store.Finish{f, {}}})
	if !errors.Is(err, job.ErrTooLarge) || !strings.Contains(err.Error(), "32Mi") || !strings.Contains(err.Error(), string(f.Job)) {
		t.Errorf("got %v, want one that names the job and the limit", err)
	}
}

// TestResultsAreJSON checks that the dispatcher accepts exactly the results that encoding/json accepts.
func TestResultsAreJSON(t *testing.T) {
	texts := []string{
		`{}`, ` {"a" : [1, 2.5e-7, null, true, "x"]} `, `{"a":1,"a":2}`, "{\"a\":\"\xff\xfe\"}", `"\ud800"`, `"\udc00\ud800"`, `1e999`, `-0`, "\t1\r\n",
		`01`, `1.`, `.5`, `+1`, `nul`, `{"a"}`, `{"a":1,}`, `[1,]`, `[1 2]`, `{a:1}`, `'a'`, "\"\n\"", `"\x"`, `"\u12g4"`, `{} {}`, `[`, `"`, "\ufeff{}", "\x00",
	}
	for _, depth := range []int{9_999, 10_000, 10_001} {
		texts = append(texts, strings.Repeat("[", depth)+strings.Repeat("]", depth), strings.Repeat(`{"a":`, depth)+"1"+strings.Repeat("}", depth))
	}
	for _, text := range texts {
		if got, want := isJSON([]byte(text)), json.Valid([]byte(text)); got != want {
			t.Errorf("%.40q: %v, want %v", text, got, want)
		}
	}
	f := store.Finish{LeaseRef: store.LeaseRef{Job: job.NewID(), Lease: 7}, Result: []byte(`{"outcome":`)}
	_, err := new(recorder).HandleFinish(t.Context(), control.FinishRequest{Worker: "w", Finishes: []store.Finish{f}})
	if !errors.Is(err, job.ErrInvalid) || !strings.Contains(err.Error(), string(f.Job)) {
		t.Errorf("got %v, want one that names the job", err)
	}
}
