package openapi

import (
	"encoding/json"
	"testing"
)

func TestConvert(t *testing.T) {
	t.Parallel()
	const document = `
paths:
  /a:
    parameters: [{name: id}]
    put:
      operationId: put
      requestBody: {$ref: '#/components/requestBodies/Shared'}
      responses: {'201': {content: {application/json: {example: own}}}}
  /b:
    post:
      operationId: post
      requestBody: {$ref: '#/components/requestBodies/Shared'}
      responses: {'200': {content: {text/plain: {}}}, '201': {content: {application/json: {}}}, default: {}}
components: {requestBodies: {Shared: {content: {application/json: {}}}}}
`
	out, err := convert(document, `{"put": {"request": 1, "response": 2}, "post": {"request": 3, "response": 4}}`)
	if err != nil {
		t.Fatal(err)
	}
	var got object
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	put, post := child(child(child(got, "paths"), "/a"), "put"), child(child(child(got, "paths"), "/b"), "post")
	for name, c := range map[string]struct{ got, want any }{
		"shared body": {jsonContent(got, child(put, "requestBody"))["example"], 1.0},
		"own answer":  {answer(got, child(put, "responses"))["example"], "own"},
		"answer":      {answer(got, child(post, "responses"))["example"], 4.0},
	} {
		if c.got != c.want {
			t.Errorf("%s: got example %v, want %v", name, c.got, c.want)
		}
	}
	for _, c := range [][2]string{{"a: [", "{}"}, {"a: 1", "["}} {
		if _, err := convert(c[0], c[1]); err == nil {
			t.Errorf("%q with %q: no error", c[0], c[1])
		}
	}
}
