package api_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/api/openapi"
	"github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

func document(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(openapi.JSON())
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return doc
}

// Every field of a wire type is in the document, and the other way round.
func TestSchemasHaveTheFieldsOfTheTypes(t *testing.T) {
	t.Parallel()
	doc := document(t)
	for name, v := range map[string]any{
		"JobSpec": job.Spec{}, "Job": job.Job{}, "JobSummary": job.Summary{}, "JobList": api.JobList{}, "BatchState": fleet.BatchState{}, "BatchStates": api.BatchStates{}, "BatchMap": api.BatchMap{}, "BatchSummary": fleet.BatchSummary{},
		"DurationBucket": fleet.DurationBucket{}, "FailureCluster": fleet.FailureCluster{}, "Comparison": fleet.Comparison{}, "Flip": fleet.Flip{}, "Batch": job.Batch{}, "Result": job.Result{}, "Artifact": job.Artifact{},
		"Policy": policy.Policy{}, "Problem": api.ProblemDetails{}, "Accepted": api.Accepted{}, "CancelRequest": api.CancelRequest{}, "Callback": job.Callback{}, "Delivery": job.Delivery{}, "CancelReport": api.CancelReport{}, "Explanation": api.Explanation{},
		"BatchRequest": api.BatchRequest{}, "BatchList": api.BatchList{}, "PoolSummary": api.PoolSummary{}, "ArtifactList": api.ArtifactList{},
		"PolicyList": api.PolicyList{}, "SecretList": api.SecretList{}, "SecretValue": api.SecretValue{}, "StoredSecret": fleet.StoredSecret{}, "WorkerList": api.WorkerList{}, "Worker": fleet.Worker{}, "Host": policy.Host{}, "HostImage": policy.HostImage{}, "LanguageList": api.LanguageList{}, "Language": api.Language{}, "LanguageStep": api.LanguageStep{}, "Fleet": api.Fleet{}, "QueueGroup": fleet.QueueGroup{}, "StoredPolicy": fleet.StoredPolicy{},
		"Program": job.Program{}, "File": job.File{}, "SessionSpec": job.SessionSpec{}, "Session": job.Session{}, "SessionList": api.SessionList{}, "ExecuteRequest": api.ExecuteRequest{},
		"Execute": job.Execute{}, "Executed": fleet.Executed{}, "ExecutionList": api.ExecutionList{}, "VariableList": api.VariableList{},
		"FunctionList": api.FunctionList{}, "CallAnswer": api.CallAnswer{}, "Action": fleet.Action{}, "ActionList": api.ActionList{}, "TenantGrant": api.TenantGrant{}, "TenantStatus": api.TenantStatus{}, "TenantList": api.TenantList{}, "OperatorRequest": api.OperatorRequest{}, "QuarantineRequest": api.QuarantineRequest{},
		"RequeueRequest": api.RequeueRequest{}, "PauseRequest": api.PauseRequest{}, "PauseList": api.PauseList{}, "Aside": fleet.Aside{}, "AsideList": api.AsideList{}, "Override": fleet.Override{}, "OverrideRequest": api.OverrideRequest{},
		"Tenant": fleet.Tenant{}, "VerifyRequest": api.VerifyRequest{}, "VerifyReport": api.VerifyReport{}, "SweepRequest": api.SweepRequest{}, "SweepReport": api.SweepReport{},
		"WorkerStatus": api.WorkerStatus{}, "Leader": fleet.Leader{}, "FleetVersion": api.FleetVersion{},
		"CheckRequest": api.CheckRequest{}, "CheckProgram": api.CheckProgram{}, "CheckReport": api.CheckReport{}, "Checked": api.Checked{}, "CheckedFunction": api.CheckedFunction{},
		"KeyRequest": api.KeyRequest{}, "NewKey": api.NewKey{}, "Key": fleet.Key{}, "KeyList": api.KeyList{},
		"Usage": job.Usage{}, "Output": job.Output{}, "StoredOutput": job.StoredOutput{}, "Enforcement": job.Enforcement{},
	} {
		schema := doc.Components.Schemas[name]
		if schema == nil {
			t.Errorf("no schema %s", name)
			continue
		}
		compare(t, name, reflect.TypeOf(v), schema.Value)
	}
}

// compare walks structs and the schemas of their fields alike.
func compare(t *testing.T, at string, typ reflect.Type, schema *openapi3.Schema) {
	t.Helper()
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if schema == nil || len(schema.Properties) == 0 {
		return // a leaf, or passed on as it is
	}
	if typ.Kind() != reflect.Struct {
		t.Errorf("%s: the document has fields, %s has none", at, typ)
		return
	}
	have := map[string]bool{}
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		have[name] = true
		prop := schema.Properties[name]
		if prop == nil {
			t.Errorf("%s.%s is not in the document", at, name)
			continue
		}
		inner, ft := prop.Value, f.Type
		for inner.Items != nil && (ft.Kind() == reflect.Slice) {
			inner, ft = inner.Items.Value, ft.Elem()
		}
		if ft != reflect.TypeFor[json.RawMessage]() {
			compare(t, at+"."+name, ft, inner)
		}
	}
	for name := range schema.Properties {
		if !have[name] {
			t.Errorf("%s.%s is in the document only", at, name)
		}
	}
}

// The document's enumerations are the language's own.
func TestEnumsAreTheLanguages(t *testing.T) {
	t.Parallel()
	doc := document(t)
	var outcomes, states []any
	for _, o := range job.Outcomes {
		outcomes = append(outcomes, string(o))
	}
	for _, s := range job.States {
		states = append(states, string(s))
	}
	if got := doc.Components.Schemas["Outcome"].Value.Enum; !reflect.DeepEqual(got, outcomes) {
		t.Errorf("outcomes are %v, want %v", got, outcomes)
	}
	if got := doc.Components.Schemas["State"].Value.Enum; !reflect.DeepEqual(got, states) {
		t.Errorf("states are %v, want %v", got, states)
	}
}
