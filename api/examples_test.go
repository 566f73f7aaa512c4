package api_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/assay-run/assay/api"
)

// example is what was asked of an operation, and what a fleet answered.
type example struct {
	Request  any `json:"request"`
	Response any `json:"response"`
}

// readExamples reads those of the operations, by their ids. test/schema/run --examples writes them anew.
func readExamples(t *testing.T) map[string]example {
	t.Helper()
	var out map[string]example
	if err := json.Unmarshal([]byte(api.Examples), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// eachOperation calls f in the order of the paths and methods.
func eachOperation(doc *openapi3.T, f func(*openapi3.Operation)) {
	for _, path := range slices.Sorted(maps.Keys(doc.Paths.Map())) {
		operations := doc.Paths.Value(path).Operations()
		for _, method := range slices.Sorted(maps.Keys(operations)) {
			f(operations[method])
		}
	}
}

// jsonBody is the JSON that an operation takes; nil if it takes none.
func jsonBody(op *openapi3.Operation) *openapi3.MediaType {
	if op.RequestBody == nil {
		return nil
	}
	return op.RequestBody.Value.Content["application/json"]
}

// jsonAnswer is the JSON that an operation answers with if it succeeds; nil if that is not JSON.
func jsonAnswer(op *openapi3.Operation) *openapi3.MediaType {
	for _, status := range []string{"200", "201"} {
		if r := op.Responses.Value(status); r != nil && r.Value.Content["application/json"] != nil {
			return r.Value.Content["application/json"]
		}
	}
	return nil
}

// Every operation that takes or answers JSON has an example of it, which is as its schema says.
func TestEveryOperationHasAnExample(t *testing.T) {
	t.Parallel()
	known := readExamples(t)
	doc := document(t)
	eachOperation(doc, func(op *openapi3.Operation) {
		e := known[op.OperationID]
		delete(known, op.OperationID)
		checkExample(t, op.OperationID+" takes", jsonBody(op), e.Request)
		if op.OperationID != "openapi" { // the document does not hold itself
			checkExample(t, op.OperationID+" answers", jsonAnswer(op), e.Response)
		}
	})
	for name := range known {
		t.Errorf("%s has an example, and is no operation", name)
	}
}

func checkExample(t *testing.T, what string, m *openapi3.MediaType, value any) {
	t.Helper()
	switch {
	case m == nil:
	case value == nil:
		t.Errorf("%s JSON, and has no example: add it to test/schema/examples.py, and run test/schema/run --examples", what)
	case m.Schema != nil:
		if err := m.Schema.Value.VisitJSON(value, openapi3.EnableFormatValidation()); err != nil {
			t.Errorf("%s: its example is not what its schema says: %.300s", what, strings.ReplaceAll(err.Error(), "\n", " "))
		}
	}
}
