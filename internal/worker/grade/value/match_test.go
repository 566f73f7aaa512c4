package value

import (
	"testing"

	"github.com/assay-run/assay/pkg/job"
)

func TestMatches(t *testing.T) {
	t.Parallel()
	python, json := job.Matching{Match: job.MatchPython}, job.Matching{Match: job.MatchJSON}
	loose := job.Matching{Larger: 1e-6}
	looseJSON := job.Matching{Match: job.MatchJSON, Absolute: 0.1}
	for _, c := range []struct {
		got, want string
		by        job.Matching
		equal     bool
	}{
		{`{"$tuple":[1]}`, `[1]`, python, false},
		{`{"$tuple":[1]}`, `[1]`, json, true},
		{`[{"$tuple":[1,{"$tuple":[2]}]}]`, `[[1,[2]]]`, json, true},
		{`[1]`, `{"$tuple":[1]}`, json, true},
		{`{"$tuple":[1,2]}`, `[1]`, json, false},
		{`{"$dict":[[1,2]]}`, `{"1":2}`, python, false},
		{`{"$dict":[[1,2]]}`, `{"1":2}`, json, true},
		{`{"$dict":[[true,1],[null,2],[1.5,3]]}`, `{"true":1,"null":2,"1.5":3}`, json, true},
		{`{"$dict":[[{"$tuple":[1]},2]]}`, `{"$dict":[[{"$tuple":[1]},2]]}`, json, true},
		{`{"$dict":[[1,{"$tuple":[1]}]]}`, `{"1":[1]}`, json, true},
		{`{"$dict":[[1,2],["1",2]]}`, `{"1":2,"2":2}`, json, false},
		{`{"$dict":[[1,2],["1",2]]}`, `{"$dict":[[1,2],["1",2]]}`, json, false},
		{`{"$set":[1]}`, `[1]`, json, false},
		{`{"$set":[{"$tuple":[1]}]}`, `{"$set":[{"$tuple":[1]}]}`, json, true},
		{`2`, `2.0`, json, true},
		{`"2"`, `2`, json, false},
		{`true`, `1`, json, true},
		{`0.30000000000000004`, `0.3`, python, false},
		{`0.30000000000000004`, `0.3`, loose, true},
		{`[{"a":[0.30000000000000004]}]`, `[{"a":[0.3]}]`, loose, true},
		{`{"$tuple":[0.30000000000000004]}`, `[0.3]`, loose, false},
		{`{"$tuple":[0.35]}`, `[0.3]`, looseJSON, true},
		{`{"$dict":[[1,0.35]]}`, `{"1":0.3}`, looseJSON, true},
		{`1000000.5`, `1000000`, loose, true},
		{`1000002`, `1000000`, loose, false},
		{`1000001`, `1000000`, loose, false}, // ints
		{`1.1`, `1`, loose, false},
		{`{"$complex":[1.0000001,2.0]}`, `{"$complex":[1.0,2.0]}`, loose, true},
		{`{"$complex":[1.0,2.1]}`, `{"$complex":[1.0,2.0]}`, loose, false},
		{`{"$float":"nan"}`, `{"$float":"nan"}`, loose, true},
		{`{"$float":"inf"}`, `1e308`, job.Matching{Larger: 1}, false},
		{`{"$float":"inf"}`, `{"$float":"inf"}`, loose, true},
		{`{"$std":["decimal.Decimal",["0.3000001"]]}`, `0.3`, loose, true},
		{`{"$other":["X","1"]}`, `1`, loose, false},
		{`99.0`, `100`, job.Matching{Relative: 0.01}, true},
		{`98.9`, `100`, job.Matching{Relative: 0.01}, false},
		{`0.0`, `0`, job.Matching{Relative: 0.01}, true},
		{`{"$set":[0.30000000000000004]}`, `{"$set":[0.3]}`, loose, false}, // members are compared exactly
	} {
		got, err := Decode([]byte(c.got))
		want, err2 := Decode([]byte(c.want))
		if err != nil || err2 != nil {
			t.Fatal(c.got, c.want, err, err2)
		}
		if Matches(got, want, c.by) != c.equal {
			t.Errorf("%s and %s by %+v: matches is %v", c.got, c.want, c.by, !c.equal)
		}
	}
}
