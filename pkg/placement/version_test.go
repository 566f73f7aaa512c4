package placement

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// TestVersionOfEveryField checks that each field of a spec is known to the release before Languages
// (testdata/fields.txt), or requires a worker of its version. A field that older workers may ignore is added
// to the file by hand.
func TestVersionOfEveryField(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/fields.txt")
	if err != nil {
		t.Fatal(err)
	}
	known, seen := strings.Fields(string(raw)), map[string]bool{}
	fresh := 0
	eachField(reflect.TypeFor[job.Spec](), "", func(v reflect.Value) reflect.Value { return v }, func(path string, spec *job.Spec) {
		seen[path] = true
		version := VersionOf(spec)
		switch {
		case !slices.Contains(known, path):
			if fresh++; version < Languages {
				t.Errorf("workers of the release before read over %s, and VersionOf does not keep the job from them", path)
			}
		case version != 0:
			t.Errorf("%s needs version %d, and every release knows it", path, version)
		}
	})
	for _, path := range known {
		if !seen[path] {
			t.Errorf("there is no field %s", path)
		}
	}
	if fresh < 20 || len(known) < 40 {
		t.Errorf("%d fields are new, and %d known: the walk misses some", fresh, len(known))
	}
}

// eachField calls f for every JSON path of a type, with a minimal spec that has it. at maps the spec's value
// to a value of the type.
func eachField(of reflect.Type, path string, at func(reflect.Value) reflect.Value, f func(string, *job.Spec)) {
	switch of.Kind() {
	case reflect.Pointer:
		eachField(of.Elem(), path, func(v reflect.Value) reflect.Value {
			v = at(v)
			if v.IsNil() {
				v.Set(reflect.New(of.Elem()))
			}
			return v.Elem()
		}, f)
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Struct {
			eachField(of.Elem(), path+"[]", func(v reflect.Value) reflect.Value {
				v = at(v)
				v.Set(reflect.MakeSlice(of, 1, 1))
				return v.Index(0)
			}, f)
		}
	case reflect.Struct:
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			if name == "" || name == "-" {
				continue
			}
			field := strings.TrimPrefix(path+"."+name, ".")
			to := func(v reflect.Value) reflect.Value { return at(v).Field(i) }
			var spec job.Spec
			fill(to(reflect.ValueOf(&spec).Elem()))
			f(field, &spec)
			eachField(of.Field(i).Type, field, to, f)
		}
	}
}

// fill gives a value content, so that JSON does not omit it.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.Zero(v.Type().Key()), reflect.Zero(v.Type().Elem()))
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	}
}

// TestVersionOfComparisons checks that a job needs a version only for comparisons that the release before
// lacks.
func TestVersionOfComparisons(t *testing.T) {
	t.Parallel()
	for compare, want := range map[job.Compare]int{
		"": 0, job.CompareExact: 0, job.CompareWhitespace: 0, job.CompareTokens: 0, job.CompareFloats: 0, job.CompareUnordered: Languages,
	} {
		s := job.Spec{Program: job.Program{Tests: &job.Tests{Stdio: []job.Stdio{{}, {Compare: compare}}}}}
		if got := VersionOf(&s); got != want {
			t.Errorf("compare %q needs version %d, want %d", compare, got, want)
		}
	}
}

// TestVersionIsANeed checks that a job that needs a version goes to workers of that version, and that the
// requirement is visible. requires stays as it was.
func TestVersionIsANeed(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	own := map[string]string{"gpu": "a100"}
	spec := job.Spec{Pool: "p", Requires: own, Program: job.Program{Code: &job.Code{Language: "c"}}}
	n := ParseClass(NeedOf(&spec, &p, func(string) bool { return false }).Class())
	old := Offer{Labels: own}
	for version, want := range map[int]bool{0: false, Languages - 1: false, Languages: true, Languages + 1: true} {
		if got := (Offer{Labels: Speaking(own, version)}).Takes("p", n); got != want {
			t.Errorf("a worker that speaks %d takes it: %t", version, got)
		}
	}
	if (Offer{Labels: Speaking(nil, Languages)}).Takes("p", n) {
		t.Error("a worker without the label that the job requires takes it")
	}
	if why := old.Lacks(n); !strings.Contains(why, "version 3 of the protocol") || !strings.Contains(n.String(), why) || !strings.Contains(n.String(), "label gpu=a100") {
		t.Errorf("lacks %q of %q", why, n)
	}
	if !(Pools{"p": {Labels: own}}).Offer("p").Takes("p", n) {
		t.Error("a pool that has no worker now is taken to have none for it")
	}
	if want := map[string]string{"gpu": "a100"}; !maps.Equal(own, want) || !maps.Equal(spec.Requires, want) {
		t.Errorf("labels were changed: %v, %v", own, spec.Requires)
	}
	raw, err := json.Marshal(spec)
	if err != nil || bytes.Contains(raw, []byte(speaks)) {
		t.Errorf("%s, %v", raw, err)
	}
}
