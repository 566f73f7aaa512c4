package corpus

import (
	"slices"
	"testing"
	"testing/fstest"

	"github.com/assay-run/assay/pkg/job"
)

func TestSources(t *testing.T) {
	const good = "// tries: end\n// outcome: succeeded|failed\nint main(void) {}\n// outcome: this is none of the header\n"
	all, err := Sources(fstest.MapFS{"a.c": {Data: []byte(good)}, "b.cpp": {Data: []byte(good)}, "README.md": {}}, 2)
	if err != nil {
		t.Fatal(err)
	}
	a, b := all[0], all[1]
	if a.Name != "a.c" || a.Tries != "end" || a.Text != good || a.Language.Name != "c" || b.Language.Name != "cpp" || !slices.Equal(a.Outcomes, []job.Outcome{job.Succeeded, job.Failed}) {
		t.Errorf("%+v", all)
	}
	if _, err := Sources(fstest.MapFS{"a.c": {Data: []byte(good)}}, 2); err == nil {
		t.Error("one of two is enough")
	}
	for _, bad := range []string{"", "int x;\n" + good, "// tries: end\nint x;\n// outcome: failed\n", "// tries: end\n// outcome: failed\n// says: more\n"} {
		if _, err := Sources(fstest.MapFS{"a.c": {Data: []byte(bad)}}, 1); err == nil {
			t.Errorf("%q is taken for a program with a header", bad)
		}
	}
}
