package web

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/assay-run/assay/api/openapi"
	"github.com/assay-run/assay/pkg/job"
)

// Parameters are the query parameters of one route.
type Parameters struct {
	names    []string
	repeated map[string]bool // by name: may be given more than once
}

// queries has the query parameters of each route by its pattern, from the OpenAPI document. So the routes accept
// exactly the documented parameters.
var queries = sync.OnceValue(func() map[string]Parameters {
	type parameter struct {
		Ref    string `json:"$ref"`
		Name   string `json:"name"`
		In     string `json:"in"`
		Schema struct {
			Type string `json:"type"`
		} `json:"schema"`
	}
	var doc struct {
		Paths      map[string]map[string]json.RawMessage `json:"paths"`
		Components struct {
			Parameters map[string]parameter `json:"parameters"`
		} `json:"components"`
	}
	if err := json.Unmarshal(openapi.JSON(), &doc); err != nil {
		panic("httpapi: the embedded OpenAPI document: " + err.Error())
	}
	out := map[string]Parameters{}
	for path, item := range doc.Paths {
		var all []parameter
		_ = json.Unmarshal(item["parameters"], &all) // there may be none
		for method, raw := range item {
			var op struct {
				Parameters []parameter `json:"parameters"`
			}
			if method == "parameters" || json.Unmarshal(raw, &op) != nil {
				continue
			}
			p := Parameters{repeated: map[string]bool{}}
			for _, q := range append(all[:len(all):len(all)], op.Parameters...) {
				if name, ok := strings.CutPrefix(q.Ref, "#/components/parameters/"); ok {
					q = doc.Components.Parameters[name]
				}
				if q.In == "query" {
					p.names = append(p.names, q.Name)
					p.repeated[q.Name] = q.Schema.Type == "array"
				}
			}
			out[strings.ToUpper(method)+" "+path] = p
		}
	}
	return out
})

// ParametersOf returns the query parameters of a route. known is false if the document does not have the route.
func ParametersOf(pattern string) (p Parameters, known bool) {
	p, known = queries()[strings.Replace(pattern, "...}", "}", 1)]
	return p, known
}

// Check rejects a malformed query, unknown parameters, and repeated ones where the route would ignore all but the
// first.
func (p Parameters) Check(r *http.Request) error {
	if r.URL.RawQuery == "" {
		return nil
	}
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return job.Invalid("query", "cannot be read: %v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(q)) {
		values := q[name]
		repeated, known := p.repeated[name]
		switch {
		case !known:
			return job.Invalid(quoteName(name), "%s", p.unknown(name))
		case len(values) > 1 && !repeated:
			return job.Invalid(name, "is given %d times in the query", len(values))
		}
	}
	return nil
}

func (p Parameters) unknown(name string) string {
	const what = "unknown query parameter"
	if len(p.names) == 0 {
		return what + "; there are none here"
	}
	if n := job.Nearest(name, p.names); n != "" {
		return what + "; did you mean " + n + "?"
	}
	return what + "; there are " + strings.Join(p.names, ", ")
}

// quoteName returns a client's name for use in an error, quoted if it is unusual.
func quoteName(name string) string {
	if len(name) > 80 || name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != "" {
		return strconv.QuoteToASCII(job.Clip(name, 80))
	}
	return name
}
