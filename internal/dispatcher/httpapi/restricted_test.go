package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/dropin"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// Expected behaviour of operations for restricted keys. TestEveryOperationForRestrictedKeys fails for an operation that
// is in no list or behaves differently.
var (
	forEveryone  = words("openLink healthz readyz openapi")
	keepsBoth    = words("run submitJob submitBatch cancelJobs prioritizeJobs cancelJob cancelBatch keepBatch putBlob headBlob getPolicy listLanguages listWorkers getJob getResult listArtifacts getArtifact getOutput jobLogs getBatch listResults batchEvents listJobs listBatches listJobsOfBatch batchSummary batchMap")
	keepsLabels  = words("retryBatch listPolicies explainPolicy")
	keepsPolicy  = words("getFleet batchStates compareBatches")
	refusesBoth  = words("check putPolicy listSecrets putSecret deleteSecret createKey listKeys getKey revokeKey makeLink openUpload getUpload dropUpload putChunk sealUpload listTenants showTenant")
	ofSessions   = words("createSession listSessions getSession closeSession execute listExecutions forkSession interruptSession resetSession keepSession putContext listVariables getVariable putVariable putFunctions sessionEvents answerCall getFile putFile listExportedArtifacts exportArtifacts getExportedArtifact")
	forOperators = words("deleteJob deleteBatch putTenant") // and those tagged admin
)

func words(s string) []string { return strings.Fields(s) }

// restrictions are the keys of tenant a in the tests.
var restrictions = map[string]api.KeyRequest{
	"label": {Name: "label", Label: "run=mine"}, "policy": {Name: "policy", Policy: "roomy"}, "both": {Name: "both", Label: "run=mine", Policy: "roomy"},
}

// keeps reports whether a key with these restrictions may use an operation.
func keeps(op *openapi3.Operation, q api.KeyRequest) (allowed, known bool) {
	label, restricted := q.Label != "", q.Policy != ""
	switch id := op.OperationID; {
	case slices.Contains(forEveryone, id), slices.Contains(keepsBoth, id):
		return true, true
	case slices.Contains(keepsLabels, id):
		return !restricted, true
	case slices.Contains(keepsPolicy, id):
		return !label, true
	default:
		return false, slices.Contains(op.Tags, "admin") || slices.Contains(slices.Concat(refusesBoth, ofSessions, forOperators), id)
	}
}

// restrictedFleet returns a fleet with two policies and a key for each restriction.
func restrictedFleet(t *testing.T, change ...func(*parts)) (f *fleet, tokens map[string]string) {
	t.Helper()
	f = newFleet(t, append(change, withKeys(t, "all=a,root=a:admin"))...)
	for name, text := range map[string]string{"roomy": roomy, "lax": `{"wall":"1h","memory":"2Gi"}`} {
		if err := f.client(client.WithToken("all")).PutPolicy(t.Context(), name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	tokens = map[string]string{}
	for name, q := range restrictions {
		tokens[name] = f.key("all", q).Token
	}
	return f, tokens
}

// roomy is a policy that allows every program of the tests.
const roomy = `{"wall":"9s","cpu_time":"8s","memory":"600Mi","processes":70,"syscalls":"strict","stdout":{"limit":"8Ki"},"stderr":{"limit":"8Ki"}}`

// Each operation of the document enforces a restriction or rejects the key, as the lists above specify. Operations that
// require a key reject expired and revoked ones.
func TestEveryOperationForRestrictedKeys(t *testing.T) {
	t.Parallel()
	f, tokens := restrictedFleet(t)
	o := ownedByA(f, "all")
	short, revoked := f.key("all", api.KeyRequest{Name: "short", For: job.Duration(time.Second)}), f.key("all", api.KeyRequest{Name: "revoked"})
	if _, err := f.client(client.WithToken("root")).RevokeKey(t.Context(), revoked.Key.ID, "a test"); err != nil {
		t.Fatal(err)
	}
	f.until("the key has expired", func() bool {
		code, _ := f.send(short.Token, "GET", "/v1/jobs", nil)
		return code == http.StatusUnauthorized
	})
	f.endsWithinASecond(revoked.Token)
	for path, item := range document(t).Paths.Map() {
		for method, op := range item.Operations() {
			if !strings.HasPrefix(path, "/v1/") && slices.Contains(forEveryone, op.OperationID) {
				continue // for everyone, and names no object
			}
			ask := func(token string) (int, string) {
				resp, text := f.do(method, o.address(t, path), o.bodies[op.OperationID], "Authorization", "Bearer "+token)
				return resp.StatusCode, text
			}
			for name, q := range restrictions {
				allowed, known := keeps(op, q)
				if !known {
					t.Fatalf("%s %s (%s) is in no list of what operations do for restricted keys", method, path, op.OperationID)
				}
				if op.OperationID == "batchEvents" || op.OperationID == "getPolicy" || op.OperationID == "submitJob" || op.OperationID == "submitBatch" {
					continue // it streams, or its body names another policy: see TestNoOperationCrossesLabels and TestRestrictedPrograms
				}
				code, text := ask(tokens[name])
				if refused := code == http.StatusForbidden; refused == allowed && !(allowed && strings.Contains(text, "; the value is")) {
					t.Errorf("%s with a key restricted to %s: %d %.300s", op.OperationID, name, code, text)
				}
				if !allowed && method != http.MethodHead && !strings.Contains(text, "which is restricted to the") && !strings.Contains(text, "needs the role") {
					t.Errorf("%s with a key restricted to %s does not give the reason: %d %.300s", op.OperationID, name, code, text)
				}
			}
			for name, token := range map[string]string{"expired": short.Token, "revoked": revoked.Token} {
				if slices.Contains(forEveryone, op.OperationID) {
					continue
				}
				if code, text := ask(token); code != http.StatusUnauthorized {
					t.Errorf("%s with a key that was %s: %d %.300s", op.OperationID, name, code, text)
				}
			}
		}
	}
}

// Routes outside the document, such as the drop-ins and /mcp, reject restricted keys.
func TestRestrictedKeysBesideTheDocument(t *testing.T) {
	t.Parallel()
	f, tokens := restrictedFleet(t, func(c *parts) {
		c.DropIns, c.Metrics, c.Profiles = dropin.Names(), http.NotFoundHandler(), http.NotFoundHandler()
	})
	tried := 0
	for _, pattern := range f.served {
		method, path, _ := strings.Cut(pattern, " ")
		if strings.HasPrefix(path, "/v1/") || path == "/healthz" || path == "/readyz" || path == "/openapi.json" {
			continue
		}
		open, _ := f.send("", method, path, nil)
		for name, token := range tokens {
			tried++
			if code, p := f.send(token, method, path, strings.NewReader(runCode), "Content-Type", api.JSON); code != http.StatusForbidden && open == http.StatusUnauthorized {
				t.Errorf("%s with a key restricted to %s: %d %s", pattern, name, code, p.Detail)
			}
		}
	}
	if tried < 3*8 {
		t.Errorf("only %d requests were made", tried)
	}
}

// An Idempotency-Key does not show a job to a key with another restriction, in any operation.
func TestIdempotencyKeysOfRestrictedKeys(t *testing.T) {
	t.Parallel()
	f, tokens := restrictedFleet(t)
	tokens["all"] = "all"
	tokens["another label"] = f.key("all", api.KeyRequest{Name: "x", Label: "run=other"}).Token
	tokens["another policy"] = f.key("all", api.KeyRequest{Name: "x", Policy: "lax"}).Token
	batch, err := f.client(client.WithToken("all")).SubmitBatch(t.Context(), client.BatchOptions{Labels: map[string]string{"run": "mine"}}, strings.NewReader(`{"program":{"python":{"code":"fail"}}}`+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	f.until("the batch is over", func() bool {
		b, err := f.store.Batch(t.Context(), "a", batch.ID)
		return err == nil && !b.EndedAt.IsZero()
	})
	bodies := map[string]string{"run": python("1"), "submitJob": python("1"), "submitBatch": `{"jobs":[` + python("1") + `]}`, "retryBatch": "", "openUpload": `{}`}
	n := 0
	for path, item := range document(t).Paths.Map() {
		for method, op := range item.Operations() {
			takes := slices.ContainsFunc(op.Parameters, func(p *openapi3.ParameterRef) bool { return p.Value.Name == api.HeaderIdempotencyKey })
			if !takes || slices.Contains(ofSessions, op.OperationID) {
				continue
			}
			body, known := bodies[op.OperationID]
			if !known {
				t.Errorf("%s takes an Idempotency-Key, and is not tried", op.OperationID)
			}
			for first := range tokens {
				n++
				key, owner := fmt.Sprintf("%s %d", op.OperationID, n), ""
				send := func(token string) (int, string) {
					address := strings.Replace(strings.Replace(path, "{id}", string(batch.ID), 1), "/v1/run", "/v1/run?wait=1ms", 1)
					resp, text := f.do(method, address, body, "Authorization", "Bearer "+token, api.HeaderIdempotencyKey, key)
					var made struct{ ID string }
					_ = json.Unmarshal([]byte(text), &made) // a problem has none
					return resp.StatusCode, made.ID
				}
				code, id := send(tokens[first])
				if owner = id; code >= 300 {
					continue // not allowed for that key
				}
				if _, again := send(tokens[first]); again != owner {
					t.Errorf("%s: %s gets %s, then %s", op.OperationID, first, owner, again)
				}
				for other, token := range tokens {
					if code, id := send(token); other != first && (code < 400 || id != "") {
						t.Errorf("%s: %s gets what %s made: %d %s", op.OperationID, other, first, code, id)
					}
				}
			}
		}
	}
	if n == 0 {
		t.Error("no operation takes an Idempotency-Key")
	}
}

// A link expires with the key that made it at the latest.
func TestLinksOfKeysThatExpire(t *testing.T) {
	t.Parallel()
	f := newFleet(t, withKeys(t, "all=a"))
	made, err := f.client(client.WithToken("all")).Run(t.Context(), job.Spec{Program: job.Program{Python: &job.Python{Code: "artifact"}}})
	if err != nil {
		t.Fatal(err)
	}
	short := f.key("all", api.KeyRequest{Name: "short", For: job.Duration(10 * time.Minute)})
	link := func(token, more string) (code int, l api.Link) {
		resp, text := f.do("POST", "/v1/jobs/"+string(made.ID)+"/links", `{"stream":"stdout"`+more+`}`, "Authorization", "Bearer "+token)
		_ = json.Unmarshal([]byte(text), &l)
		return resp.StatusCode, l
	}
	if code, l := link(short.Token, ""); code != http.StatusCreated || l.ExpiresAt.After(*short.Key.ExpiresAt) {
		t.Errorf("a link without a time: %d, until %v, and the key until %v", code, l.ExpiresAt, short.Key.ExpiresAt)
	}
	for more, want := range map[string]int{`,"expires_in":"5m"`: 201, `,"expires_in":"11m"`: 403, `,"expires_in":"168h"`: 403} {
		if code, l := link(short.Token, more); code != want {
			t.Errorf("%s: %d, until %v", more, code, l.ExpiresAt)
		}
		if code, _ := link("all", more); code != http.StatusCreated {
			t.Errorf("%s with a token that does not expire: %d", more, code)
		}
	}
}
