package mcp

import (
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"
)

// limit is a constraint on an argument beyond its type.
type limit struct {
	least, most float64 // inclusive; both 0: any
	above       bool    // least itself is too little
	oneOf       []any
}

// schema describes the arguments of a tool: the fields of In, and limits by name.
func schema[In any](limits map[string]limit) *jsonschema.Schema {
	s, err := jsonschema.For[In](&jsonschema.ForOptions{})
	if err != nil {
		panic("mcp: schema of " + reflect.TypeFor[In]().Name() + ": " + err.Error()) // the types are constants
	}
	for _, p := range s.Properties {
		plain(p)
	}
	for name, l := range limits {
		p := s.Properties[name]
		p.Enum = l.oneOf
		if l.most > 0 {
			p.Maximum = &l.most
		}
		switch {
		case l.above:
			p.ExclusiveMinimum = &l.least
		case l.most > 0:
			p.Minimum = &l.least
		}
	}
	return s
}

// plain removes null from list types, because models send it instead of leaving an argument out.
func plain(s *jsonschema.Schema) {
	for _, t := range s.Types {
		if t != "null" {
			s.Type, s.Types = t, nil
			return
		}
	}
}

// seconds are the limits of a time argument.
var seconds = limit{above: true, most: 86400}
