package httpapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// programs has one program of each kind, and each part of tests that runs its own code.
var programs = map[string]string{
	"python": `{"python":{"code":"1"}}`, "argv": `{"command":{"argv":["true"]}}`, "steps": `{"command":{"steps":[{"name":"a","argv":["true"],"policy":{"wall":"1s"}}]}}`,
	"code": `{"code":{"language":"python","source":"1"}}`, "compiled": `{"code":{"language":"c","source":"int main(){}","compile":{"flags":["-O0"]}}}`,
	"cases": `{"tests":{"code":"def f(x): return x","function":"f","cases":[{"args":[1],"expected":1}]}}`, "check": `{"tests":{"code":"def f(x): return x","check":"def check(f): assert f(1) == 1","function":"f"}}`,
	"stdio": `{"tests":{"code":"1","stdio":[{"stdout":""}]}}`, "compiled stdio": `{"tests":{"language":"c","code":"int main(){}","compile":{},"limits":{"c":{"wall":1}},"stdio":[{"stdout":""}]}}`,
	"checker":             `{"tests":{"code":"1","stdio":[{"stdout":""}],"checker":{"code":{"language":"python","source":"1"}}}}`,
	"testlib":             `{"tests":{"code":"1","stdio":[{"stdout":""}],"checker":{"protocol":"testlib","argv":["true"]}}}`,
	"interactor":          `{"tests":{"code":"1","stdio":[{"stdout":""}],"interactor":{"code":{"language":"python","source":"1"}}}}`,
	"compiled checker":    `{"tests":{"code":"1","stdio":[{"stdout":""}],"checker":{"code":{"language":"c","source":"int main(){}","compile":{}}}}}`,
	"compiled interactor": `{"tests":{"code":"1","stdio":[{"stdout":""}],"interactor":{"code":{"language":"c","source":"int main(){}","compile":{}}}}}`,
}

// carriers are the operations that submit a job. They return the ids of the accepted jobs.
var carriers = map[string]func(f *fleet, token, spec string) (code int, text string, ids []job.ID){
	"run": func(f *fleet, token, spec string) (int, string, []job.ID) {
		return f.submits(token, "/v1/run?wait=1ms", spec, api.JSON)
	},
	"submitJob": func(f *fleet, token, spec string) (int, string, []job.ID) {
		return f.submits(token, "/v1/jobs", spec, api.JSON)
	},
	"submitBatch": func(f *fleet, token, spec string) (int, string, []job.ID) {
		return f.submits(token, "/v1/batches?ids=true", `{"jobs":[`+spec+`]}`, api.JSON)
	},
	"submitBatch, defaults": func(f *fleet, token, spec string) (int, string, []job.ID) {
		return f.submits(token, "/v1/batches?ids=true", `{"defaults":`+spec+`,"jobs":[{}]}`, api.JSON)
	},
	"submitBatch, lines": func(f *fleet, token, spec string) (int, string, []job.ID) {
		return f.submits(token, "/v1/batches?ids=true", spec+"\n", api.NDJSON)
	},
	"submitBatch, defaults of lines": func(f *fleet, token, spec string) (int, string, []job.ID) {
		return f.submits(token, "/v1/batches?ids=true&defaults="+url.QueryEscape(spec), "{}\n", api.NDJSON)
	},
}

func (f *fleet) submits(token, path, body, kind string) (code int, text string, ids []job.ID) {
	f.t.Helper()
	resp, text := f.do("POST", path, body, "Authorization", "Bearer "+token, "Content-Type", kind)
	var made struct {
		ID  job.ID
		IDs []job.ID
	}
	if resp.StatusCode < 300 {
		if err := json.Unmarshal([]byte(text), &made); err != nil {
			f.t.Fatal(err)
		}
		if ids = made.IDs; ids == nil {
			ids = []job.ID{made.ID}
		}
	}
	return resp.StatusCode, text, ids
}

// A job submitted with a restricted key meets the restriction or is rejected with a reason, in every operation. The
// programs and limits come from the document: a new one fails this test until it is covered.
func TestRestrictedPrograms(t *testing.T) {
	t.Parallel()
	f, tokens := restrictedFleet(t)
	schemas := document(t).Components.Schemas
	for kind := range schemas["Program"].Value.Properties {
		if !slices.ContainsFunc(slices.Collect(maps.Values(programs)), func(p string) bool { return strings.HasPrefix(p, `{"`+kind+`"`) }) {
			t.Errorf("no program of the kind %s is tried", kind)
		}
	}
	for path, item := range document(t).Paths.Map() {
		for _, op := range item.Operations() {
			if carries(op) && carriers[op.OperationID] == nil {
				t.Errorf("%s %s takes jobs, and is not tried", op.OperationID, path)
			}
		}
	}
	var specs []string
	for _, p := range programs {
		specs = append(specs, `{"program":`+p+`}`)
	}
	accepted := f.keepToRestrictions(tokens, specs, true)
	for name := range restrictions {
		if want := len(specs) * len(carriers); accepted[name] != want {
			t.Errorf("%d of %d plain jobs were accepted from a key restricted to %s", accepted[name], want, name)
		}
	}
	f.keepToRestrictions(tokens, withLimits(t, schemas["JobSpec"].Value), false)
	f.keepToRestrictions(tokens, withSpellings(), false)
}

// carries reports whether an operation for restricted keys accepts programs.
func carries(op *openapi3.Operation) bool {
	if op.RequestBody == nil || !slices.Contains(keepsBoth, op.OperationID) {
		return false
	}
	for _, media := range op.RequestBody.Value.Content {
		if media.Schema != nil && (strings.HasSuffix(media.Schema.Ref, "/JobSpec") || strings.HasSuffix(media.Schema.Ref, "/BatchRequest")) {
			return true
		}
	}
	return false
}

// keepToRestrictions submits the jobs with each key, either through every carrier or each through one of them. It
// returns the number of accepted jobs by key.
func (f *fleet) keepToRestrictions(tokens map[string]string, specs []string, everyWay bool) map[string]int {
	f.t.Helper()
	accepted := map[string]int{}
	for k, name := range slices.Sorted(maps.Keys(restrictions)) {
		q := restrictions[name]
		for i, spec := range specs {
			for c, by := range slices.Sorted(maps.Keys(carriers)) {
				if !everyWay && i%(len(restrictions)*len(carriers)) != k*len(carriers)+c {
					continue
				}
				code, text, ids := carriers[by](f, tokens[name], spec)
				if code >= 400 {
					var p api.ProblemDetails
					if err := json.Unmarshal([]byte(text), &p); err != nil || code >= 500 || p.Detail == "" && len(p.Errors) == 0 {
						f.t.Errorf("%s of %s by %s: %d %.300s", name, spec, by, code, text)
					}
					continue
				}
				accepted[name]++
				for _, id := range ids {
					if err := f.within(q, id); err != nil {
						f.t.Errorf("%s of %s by %s: %v", name, spec, by, err)
					}
				}
			}
		}
	}
	return accepted
}

// within checks a stored job against the restrictions of a key.
func (f *fleet) within(q api.KeyRequest, id job.ID) error {
	j, err := f.store.Job(f.t.Context(), "a", id)
	if err != nil {
		return err
	}
	if q.Label != "" && j.Spec.Labels["run"] != "mine" {
		return fmt.Errorf("has the labels %v", j.Spec.Labels)
	}
	if q.Policy == "" {
		return nil
	}
	want, err := policy.Parse([]byte(roomy))
	if err != nil {
		return err
	}
	want.RestrictHelpers = true
	raw, err := json.Marshal(want)
	if err != nil {
		return err
	}
	if !bytes.Equal(raw, j.Spec.Policy) {
		return fmt.Errorf("has the policy %s, want %s", j.Spec.Policy, raw)
	}
	var over error
	limit := func(what string, wall job.Duration, memory job.Size) {
		if wall > want.Wall || memory > want.Memory {
			over = fmt.Errorf("%s has %s and %s", what, wall, memory)
		}
	}
	compiled := func(what string, c *job.Compile) {
		if c != nil {
			limit("the compiler of "+what, c.Wall, c.Memory)
		}
	}
	if c := j.Spec.Program.Code; c != nil {
		compiled("the program", c.Compile)
	}
	if c := j.Spec.Program.Command; c != nil {
		for _, s := range c.Steps {
			p, err := policy.ParseStep(s.Policy, want)
			if err != nil {
				return err
			}
			if limit("a step", p.Wall, p.Memory); p.CPUTime > want.CPUTime || p.Stdout.Limit > want.Stdout.Limit || p.Stderr.Limit > want.Stderr.Limit || p.Syscalls != "strict" {
				return fmt.Errorf("a step has %+v", p)
			}
		}
	}
	if x := j.Spec.Program.Tests; x != nil {
		compiled("the solution", x.Compile)
		limit("case_wall", x.CaseWall, 0)
		for _, c := range x.Cases {
			limit("a case", c.Wall, 0)
		}
		for _, s := range x.Stdio { // a worker uses at most the policy's memory
			limit("a case of stdio", job.Times(x.WallOf(s.Wall), x.Multiplier().Wall), 0)
		}
		for what, k := range map[string]*job.Checker{"the checker": x.Checker, "the interactor": x.Interactor} {
			if k == nil {
				continue
			}
			if limit(what, k.Wall, k.Memory); k.Code != nil {
				compiled(what, k.Code.Compile)
			}
		}
	}
	return over
}

// withLimits returns jobs that each exceed the tests' policies in one limit of the document.
func withLimits(t *testing.T, spec *openapi3.Schema) (specs []string) {
	t.Helper()
	limits := map[string][]any{}
	findLimits(limits, "program", spec.Properties["program"], 0)
	for _, at := range slices.Sorted(maps.Keys(limits)) {
		values, tried := limits[at], false
		for _, v := range values {
			for _, kind := range slices.Sorted(maps.Keys(programs)) {
				text := programs[kind]
				var p map[string]any
				if err := json.Unmarshal([]byte(text), &p); err != nil {
					t.Fatal(err)
				}
				if !set(map[string]any{"program": p}, strings.Split(at, "."), v) {
					continue
				}
				tried = true
				raw, err := json.Marshal(map[string]any{"program": p})
				if err != nil {
					t.Fatal(err)
				}
				specs = append(specs, string(raw))
			}
		}
		if !tried {
			t.Errorf("the document has %s, and no program of the tests has a place for it", at)
		}
	}
	if len(limits) < 18 {
		t.Errorf("the document has %d limits of programs only: %v", len(limits), limits)
	}
	return specs
}

// findLimits adds the limits of a schema by path, with values that exceed all policies of the tests.
func findLimits(limits map[string][]any, at string, ref *openapi3.SchemaRef, depth int) {
	is := func(r *openapi3.SchemaRef) bool { return strings.HasSuffix(r.Ref, "/Duration") }
	s := ref.Value
	switch {
	case depth > 12:
		return
	case is(ref), slices.ContainsFunc(s.AllOf, is):
		limits[at] = []any{"10s", "59m", "2562047h", -1, ""}
		return
	case strings.HasSuffix(ref.Ref, "/Size"):
		limits[at] = []any{"601Mi", "8Gi", "8Ei", -1, ""}
		return
	case strings.HasSuffix(at, ".policy"): // of a step
		of := func(field string, v any) any { return map[string]any{field: v} }
		limits[at] = []any{of("wall", "10s"), of("cpu_time", "9s"), of("memory", "1Gi"), of("stdout", of("limit", "9Ki")), of("stderr", of("limit", "1Mi")), of("syscalls", "default"),
			of("subprocesses", true), of("network", of("mode", "open")), "lax"}
		return
	case strings.Contains(at, ".limits."):
		limits[at] = []any{10, 100, 1e9}
	}
	for name, p := range s.Properties {
		findLimits(limits, at+"."+name, p, depth+1)
	}
	if s.Items != nil {
		findLimits(limits, at+".0", s.Items, depth+1)
	}
	if more := s.AdditionalProperties.Schema; more != nil && strings.HasSuffix(at, ".limits") {
		findLimits(limits, at+".c", more, depth+1)
	}
}

// set sets a value at a path, and reports whether the path's parent exists.
func set(in any, path []string, v any) bool {
	switch x := in.(type) {
	case map[string]any:
		if len(path) == 1 {
			x[path[0]] = v
			return true
		}
		return set(x[path[0]], path[1:], v)
	case []any:
		n, err := strconv.Atoi(path[0])
		return err == nil && n < len(x) && len(path) > 1 && set(x[n], path[1:], v)
	}
	return false
}

// withSpellings returns jobs that spell a policy or a label in unusual ways, which a restriction might miss.
func withSpellings() (specs []string) {
	const code = `"program":{"python":{"code":"1"}}`
	for _, v := range []string{`null`, `"roomy"`, `"lax"`, `"roomy@1"`, `"roomy@0"`, `"Roomy"`, `" roomy"`, `""`, `{}`, `{"memory":"1Gi"}`, `{"restrict_helpers":false}`, `{"asked":{"wall":"1h"}}`, roomy, `[]`, `0`, `true`, `["roomy"]`} {
		for _, key := range []string{`"policy"`, `"Policy"`, `"POLICY"`, `"\u0070olicy"`} {
			specs = append(specs, `{`+code+`,`+key+`:`+v+`}`, `{"policy":"roomy",`+code+`,`+key+`:`+v+`}`, `{`+key+`:`+v+`,`+code+`,"policy":"roomy"}`)
		}
	}
	for _, v := range []string{`null`, `{}`, `{"run":"mine"}`, `{"run":"other"}`, `{"run":""}`, `{"Run":"other"}`, `{"run ":"other"}`, `{"run":null}`, `{"run":"mine","run":"other"}`, `{"\u0072un":"other"}`, `[]`, `"run=mine"`} {
		for _, key := range []string{`"labels"`, `"Labels"`, `"label\u0073"`} {
			specs = append(specs, `{`+code+`,`+key+`:`+v+`}`, `{"labels":{"run":"mine"},`+code+`,`+key+`:`+v+`}`)
		}
	}
	return specs
}
