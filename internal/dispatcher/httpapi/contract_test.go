package httpapi_test

import (
	"bytes"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/assay-run/assay/api/openapi"
	"github.com/assay-run/assay/internal/dispatcher/httpapi"
)

func document(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(openapi.JSON())
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func init() { // decoders are global state of the library
	for _, t := range []string{"application/x-ndjson", "text/html", "text/event-stream"} {
		openapi3filter.RegisterBodyDecoder(t, openapi3filter.FileBodyDecoder)
	}
}

// Every route is in the document, and every operation of the document has a route.
func TestDocumentHasTheRoutes(t *testing.T) {
	t.Parallel()
	var documented []string
	for path, item := range document(t).Paths.Map() {
		for method := range item.Operations() {
			documented = append(documented, method+" "+path)
		}
	}
	served := httpapi.Patterns()
	for i, p := range served {
		served[i] = strings.Replace(p, "...}", "}", 1)
	}
	for _, p := range served {
		if !slices.Contains(documented, p) {
			t.Errorf("%s is served, not documented", p)
		}
	}
	for _, p := range documented {
		if !slices.Contains(served, p) {
			t.Errorf("%s is documented, not served", p)
		}
	}
}

// checker is a transport that validates all exchanges of the tests against the document: each response, and each
// accepted request.
type checker struct {
	t     *testing.T
	doc   *openapi3.T
	next  http.RoundTripper
	paths []templatePath
}

type templatePath struct {
	template string
	pattern  *regexp.Regexp
}

var parameter = regexp.MustCompile(`\{(\w+)\}`)

func newChecker(t *testing.T, next http.RoundTripper) *checker {
	c := &checker{t: t, doc: document(t), next: next}
	for path := range c.doc.Paths.Map() {
		expr := parameter.ReplaceAllStringFunc(path, func(p string) string {
			if p == "{path}" {
				return "(?P<path>.+)"
			}
			return "(?P<" + strings.Trim(p, "{}") + ">[^/]+)"
		})
		c.paths = append(c.paths, templatePath{path, regexp.MustCompile("^" + expr + "$")})
	}
	// Fixed paths come before paths with parameters.
	slices.SortFunc(c.paths, func(a, b templatePath) int {
		return strings.Count(a.template, "{") - strings.Count(b.template, "{")
	})
	return c
}

// find returns the operation of a request, or nil if the document has none.
func (c *checker) find(r *http.Request) (*routers.Route, map[string]string) {
	for _, p := range c.paths {
		m := p.pattern.FindStringSubmatch(r.URL.Path)
		item := c.doc.Paths.Value(p.template)
		if m == nil || item.GetOperation(r.Method) == nil {
			continue
		}
		params := map[string]string{}
		for i, name := range p.pattern.SubexpNames() {
			if name != "" {
				params[name] = m[i]
			}
		}
		return &routers.Route{Spec: c.doc, Path: p.template, PathItem: item, Method: r.Method, Operation: item.GetOperation(r.Method)}, params
	}
	return nil, nil
}

func (c *checker) RoundTrip(r *http.Request) (*http.Response, error) {
	route, params := c.find(r)
	if route == nil || strings.HasSuffix(route.Path, "/events") { // a stream cannot be read ahead
		return c.next.RoundTrip(r)
	}
	var sent []byte
	if r.Body != nil {
		var err error
		if sent, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body.Close()
		r.Body = io.NopCloser(bytes.NewReader(sent))
	}
	resp, err := c.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	got, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(got))
	r.Body = io.NopCloser(bytes.NewReader(sent))
	in := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc,
			ExcludeRequestBody: len(sent) == 0 || r.Header.Get("Content-Encoding") != ""}}
	if resp.StatusCode < 300 {
		if err := openapi3filter.ValidateRequest(r.Context(), in); err != nil {
			c.t.Errorf("%s %s was accepted, but is not as documented: %v", r.Method, r.URL, err)
		}
	}
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: resp.StatusCode, Header: resp.Header,
		Body:    io.NopCloser(bytes.NewReader(got)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, ExcludeResponseBody: r.Method == http.MethodHead || len(got) == 0}}
	if err := openapi3filter.ValidateResponse(r.Context(), out); err != nil {
		c.t.Errorf("%s %s answers %d not as documented: %v\n%.500s", r.Method, r.URL, resp.StatusCode, err, got)
	}
	return resp, nil
}
