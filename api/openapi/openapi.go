// Package openapi converts the OpenAPI document of package api to JSON. Clients import package api, but need no YAML.
package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/oasdiff/yaml"

	"github.com/assay-run/assay/api"
)

// JSON returns api.Document as JSON, with api.Examples in its operations. The first call converts it, in some 30 ms.
var JSON = sync.OnceValue(func() []byte {
	out, err := convert(api.Document, api.Examples)
	if err != nil {
		panic("the embedded OpenAPI document: " + err.Error()) // a test converts the same bytes
	}
	return out
})

type object = map[string]any

// example is the JSON of one request and of its answer; nil without a body.
type example struct {
	Request  any `json:"request"`
	Response any `json:"response"`
}

// convert returns a YAML document as JSON. Each operation gets its example by its id. Operations may share a body or an
// answer, which gets the first of their examples. An example of the document itself stays.
func convert(document, examples string) ([]byte, error) {
	var doc object
	if _, err := yaml.Unmarshal([]byte(document), &doc, yaml.DecodeOpts{}); err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	var known map[string]example
	if err := json.Unmarshal([]byte(examples), &known); err != nil {
		return nil, fmt.Errorf("examples.json: %w", err)
	}
	paths := child(doc, "paths")
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		item := child(paths, path)
		for _, method := range slices.Sorted(maps.Keys(item)) {
			op, isOperation := item[method].(object)
			if !isOperation { // the parameters of the path
				continue
			}
			id, _ := op["operationId"].(string)
			setExample(jsonContent(doc, child(op, "requestBody")), known[id].Request)
			setExample(answer(doc, child(op, "responses")), known[id].Response)
		}
	}
	return json.MarshalIndent(doc, "", " ")
}

// child returns an object within another; nil, an object without fields, if there is none.
func child(o object, name string) object {
	found, _ := o[name].(object)
	return found
}

// answer returns the JSON content of the answer to a successful request; nil if there is none.
func answer(doc, responses object) object {
	for _, status := range []string{"200", "201"} {
		if content := jsonContent(doc, child(responses, status)); content != nil {
			return content
		}
	}
	return nil
}

// jsonContent returns the JSON content of a body or of an answer, or of the component that it names; nil if there is none.
func jsonContent(doc, body object) object {
	if name, ok := body["$ref"].(string); ok {
		body = doc
		for part := range strings.SplitSeq(strings.TrimPrefix(name, "#/"), "/") {
			body = child(body, part)
		}
	}
	return child(child(body, "content"), "application/json")
}

func setExample(content object, value any) {
	if content != nil && value != nil && content["example"] == nil {
		content["example"] = value
	}
}
