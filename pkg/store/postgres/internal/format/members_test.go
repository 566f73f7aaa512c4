package format

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

func TestIdentity(t *testing.T) {
	t.Parallel()
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, c := range []struct{ spec, trace, want string }{
		{`{}`, "", ``},
		{`{"name":"a\"b","labels":{"x":"}"},"image":"python"}`, "", `"name":"a\"b","labels":{"x":"}"},`},
		{` { "image" : "python" , "name" : "n" } `, trace, `"name" : "n","trace_id":"0af7651916cd43dd8448eb211c80319c",`},
		{`{"name":"","labels":null}`, "nonsense", ``},
		{`{"program":{"name":"inner"},"labels":{}}`, "00-XYZ-1-1", ``},
	} {
		if got, err := Identity([]byte(c.spec), c.trace); err != nil || got != c.want {
			t.Errorf("identity of %s: %q, %v, want %q", c.spec, got, err, c.want)
		}
	}
}

func TestNotAnObject(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{``, `{`, `[]`, `"x"`, `null`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{"a":1 "b":2}`, `{1:2}`, `{,}`} {
		if body, err := Body([]byte(bad)); err == nil {
			t.Errorf("%s became the body %q", bad, body)
		}
	}
}

// FuzzResult splits any JSON object as recording does and joins it as reading does. The output must be JSON
// that differs in the identity only.
func FuzzResult(f *testing.F) {
	f.Add([]byte(`{"id":"x","stdout":{"text":"}\"{"},"value":null,"exit_code":0}`))
	f.Add([]byte(` { "a" : [ 1 , { "id" : "]" } ] , "state" : 1.5e3 , "\u0069d" : "\\" } `))
	f.Add([]byte(`{"":"","labels":{"a":[]},"":true}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var in map[string]any
		body, err := Body(raw)
		if json.Unmarshal(raw, &in) != nil || in == nil {
			return // refused or not, it never gets here: the recorder decodes first
		}
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		row := Result{ID: pg.UUID(job.NewID()), Outcome: job.Failed, lease: 7, Worker: `w"1`, identity: []byte(`"name":"n",`), body: []byte(body)}
		var out map[string]any
		if err := json.Unmarshal(row.JSON(), &out); err != nil {
			t.Fatalf("%s became %s: %v", raw, row.JSON(), err)
		}
		for key := range identityMembers {
			delete(in, key)
			delete(out, key)
		}
		if diff := cmp.Diff(in, out); diff != "" {
			t.Errorf("%s (-in +out):\n%s", raw, diff)
		}
	})
}
