package problems

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/job"
)

// pack writes a package and returns its directory.
func pack(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "sums")
	for name, text := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// uploads accepts blobs and counts them.
type uploads int

func (u *uploads) take(_ context.Context, r io.ReadSeeker) (string, error) {
	*u++
	raw, err := io.ReadAll(r)
	return fmt.Sprintf("sha256:%x", sha256.Sum256(raw)), err
}

func with(base map[string]string, more ...string) map[string]string {
	out := map[string]string{}
	for k, v := range base {
		out[k] = v
	}
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

var plain = map[string]string{
	"problem.yaml":        "name: Sums\nlimits:\n  time_limit: 1.5\n  memory: 512\n",
	"data/sample/1.in":    "1 2\n",
	"data/sample/1.ans":   "3\n",
	"data/secret/a/1.in":  "\xff\x00",
	"data/secret/a/1.ans": "?",
	"data/secret/b.in":    strings.Repeat("1 ", 5000),
	"data/secret/b.ans":   "5000\n",
}

func TestKattis(t *testing.T) {
	t.Parallel()
	var blobs uploads
	p, err := Kattis(t.Context(), pack(t, with(plain, "submissions/accepted/a.py", "print(1)", "submissions/wrong_answer/b.cc", "int main(){}", "submissions/accepted/c.cob", "x",
		"submissions/accepted/d/main.py", "import x", "submissions/accepted/d/x.py", "")), blobs.take)
	if err != nil {
		t.Fatal(err)
	}
	cases := p.Tests.Stdio
	if p.Name != "Sums" || p.Memory != 512*job.MiB || len(cases) != 3 || blobs != 1 || len(p.Notes) != 1 {
		t.Fatalf("%+v, %d blobs", p, blobs)
	}
	if c := cases[0]; c.Name != "sample/1" || c.Stdin != "1 2\n" || c.Stdout != "3\n" || c.Wall != job.Duration(1500*time.Millisecond) || c.Compare != job.CompareTokens || !c.IgnoreCase {
		t.Errorf("%+v", c)
	}
	if c := cases[1]; c.Name != "secret/a/1" || c.StdinBase64 != "/wA=" || c.Stdin != "" {
		t.Errorf("%+v", c)
	}
	if c := cases[2]; !strings.HasPrefix(c.StdinBlob, "sha256:") || c.Stdout != "5000\n" {
		t.Errorf("%+v", c)
	}
	got := map[string]string{}
	for i := range p.Solutions {
		s, err := p.Job(&p.Solutions[i])
		if err != nil {
			t.Error(err)
		}
		got[s.Name] = s.Program.Tests.Language + " " + s.Labels["expected"]
	}
	want := map[string]string{"Sums/accepted/a.py": "python accepted", "Sums/wrong_answer/b.cc": "cpp wrong_answer", "Sums/accepted/d": "python accepted"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestHowKattisDecides(t *testing.T) {
	t.Parallel()
	const yaml = "name: Sums\nlimits: {time_limit: 1}\n"
	for name, c := range map[string]struct {
		files []string
		says  func(*job.Tests) bool
		err   string
	}{
		"float_tolerance": {[]string{"problem.yaml", yaml + "validator_flags: float_tolerance 1e-4\n"}, func(t *job.Tests) bool {
			s := t.Stdio[0]
			return s.Compare == job.CompareFloats && s.AbsoluteTolerance == 1e-4 && s.RelativeTolerance == 1e-4
		}, ""},
		"flags of the data": {[]string{"data/testdata.yaml", "output_validator_flags: float_relative_tolerance 1e-3 case_sensitive\n"}, func(t *job.Tests) bool {
			s := t.Stdio[0]
			return s.RelativeTolerance == 1e-3 && s.AbsoluteTolerance == 0 && !s.IgnoreCase
		}, ""},
		"exact": {[]string{"problem.yaml", yaml + "validator_flags: space_change_sensitive case_sensitive\n"}, func(t *job.Tests) bool { return t.Stdio[0].Compare == job.CompareExact }, ""},
		"a validator": {[]string{"problem.yaml", yaml + "validation: custom\nvalidator_flags: a b\n", "output_validators/v/validate.py", "x"}, func(t *job.Tests) bool {
			c := t.Checker
			return c.Code.Language == "python" && c.Code.Main == "validate.py" && len(c.Flags) == 2 && t.Stdio[0].Compare == ""
		}, ""},
		"one in C++": {[]string{"output_validators/v/a.cc", "x", "output_validators/v/validate.cc", "x", "output_validators/v/validate.h", "x"}, func(t *job.Tests) bool {
			return t.Checker.Code.Language == "cpp" && t.Checker.Code.Main == "validate.cc" && len(t.Checker.Code.Files) == 3
		}, ""},
		"an interactor":          {[]string{"problem.yaml", yaml + "validation: custom interactive\n", "output_validators/v.py", "x"}, func(t *job.Tests) bool { return t.Checker == nil && t.Interactor.Code.Main == "v.py" }, ""},
		"an interactor, of 2023": {[]string{"problem.yaml", yaml + "type: interactive\nproblem_format_version: 2023-07-draft\n", "output_validator/v.py", "x"}, func(t *job.Tests) bool { return t.Interactor != nil }, ""},
		"a missing validator":    {[]string{"problem.yaml", yaml + "validation: custom\n"}, nil, "output_validators has none"},
		"a flag of nobody":       {[]string{"problem.yaml", yaml + "validator_flags: fuzzy\n"}, nil, `no flag "fuzzy"`},
		"half a flag":            {[]string{"problem.yaml", yaml + "validator_flags: float_tolerance\n"}, nil, "needs a number"},
		"flags of two groups":    {[]string{"data/secret/a/testdata.yaml", "output_validator_flags: case_sensitive", "data/secret/testdata.yaml", "output_validator_flags: float_tolerance 1\n"}, nil, "groups with flags of their own"},
		"a build script":         {[]string{"output_validators/v/build", "x"}, nil, "its own build script"},
		"no answer":              {[]string{"data/secret/x.in", "1"}, nil, "secret/x.in has no answer"},
		"no YAML":                {[]string{"problem.yaml", "{"}, nil, "problem.yaml"},
		"many passes":            {[]string{"problem.yaml", yaml + "type: multi-pass\n"}, nil, "not supported"},
	} {
		var blobs uploads
		p, err := Kattis(t.Context(), pack(t, with(plain, c.files...)), blobs.take)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %s", name, err, c.err)
			}
			continue
		}
		if err != nil || !c.says(&p.Tests) {
			t.Errorf("%s: %v, %+v", name, err, p)
			continue
		}
		if _, err := p.Job(&Solution{Name: "x", Language: "python", Source: "x"}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLinksOutOfAPackage checks that links in a package do not lead out of it.
func TestLinksOutOfAPackage(t *testing.T) {
	t.Parallel()
	dir := pack(t, plain)
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "data/secret/x.in")); err != nil {
		t.Fatal(err)
	}
	var blobs uploads
	if p, err := Kattis(t.Context(), dir, blobs.take); err == nil {
		t.Errorf("%+v", p.Tests.Stdio)
	}
	if _, err := Kattis(t.Context(), t.TempDir(), blobs.take); err == nil || !strings.Contains(err.Error(), "is no problem package") {
		t.Errorf("%v", err)
	}
}

// archive packs files; a name that ends with @ is a link to its text.
func archive(t *testing.T, files map[string]string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, text := range files {
		h := &zip.FileHeader{Name: strings.TrimSuffix(name, "@"), Method: zip.Deflate}
		if h.SetMode(0o600); h.Name != name {
			h.SetMode(0o600 | fs.ModeSymlink)
		}
		w, err := z.CreateHeader(h)
		if err == nil {
			_, err = io.WriteString(w, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(t.TempDir(), "packed.zip")
	if err := os.WriteFile(at, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return at
}

func TestPackedPackages(t *testing.T) {
	t.Parallel()
	below := map[string]string{}
	for name, text := range plain {
		below["sums/"+name] = text
	}
	var blobs uploads
	for name, files := range map[string]map[string]string{"at the top": plain, "in a directory": below} {
		p, err := KattisZip(t.Context(), archive(t, files), blobs.take)
		if err != nil || p.Name != "Sums" || len(p.Tests.Stdio) != 3 {
			t.Errorf("%s: %v, %+v", name, err, p)
		}
	}
	for want, files := range map[string][]string{
		"is not a path below the package": {"../data/secret/x.in", "1"},
		"is not a path below":             {"/etc/x", "1"},
		"neither a file nor":              {"data/secret/x.in@", "/etc/passwd"},
		"secret/x.in has no answer":       {"data/secret/x.in", "1"},
		"time_limit is 0 seconds":         {"problem.yaml", "limits: {time_limit: 0}"},
		"time_limit is -1 seconds":        {"problem.yaml", "limits: {time_limit: -1}"},
		"time_limit is 1e+09 seconds:":    {"problem.yaml", "limits: {time_limit: 1.0e+9}"},
		".timelimit: strconv":             {"problem.yaml", "name: x", ".timelimit", "soon"},
		".timelimit is 0 seconds":         {"problem.yaml", "name: x", ".timelimit", "0"},
	} {
		if p, err := KattisZip(t.Context(), archive(t, with(plain, files...)), blobs.take); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %+v, want %s", err, p, want)
		}
	}
	if _, err := KattisZip(t.Context(), archive(t, map[string]string{"x": "y"}), blobs.take); err == nil || !strings.Contains(err.Error(), "packed is no problem package") {
		t.Error(err)
	}
}

// TestPipesInAPackage checks that other files than regular ones are not read: a read of them may never end.
func TestPipesInAPackage(t *testing.T) {
	t.Parallel()
	dir := pack(t, plain)
	if err := unix.Mkfifo(filepath.Join(dir, "data/secret/x.in"), 0o600); err != nil {
		t.Fatal(err)
	}
	var blobs uploads
	if _, err := Kattis(t.Context(), dir, blobs.take); err == nil || !strings.Contains(err.Error(), "x.in is not a regular file") {
		t.Error(err)
	}
}

// TestManyCases checks that a problem with many cases makes a valid job, and that one with too many is an error.
func TestManyCases(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{job.MaxCases: "", job.MaxCases + 1: "10001 cases; a job has at most 10000"} {
		var in, out []string
		for i := range n {
			in, out = append(in, strings.Repeat(fmt.Sprint(i, " "), 500)), append(out, "1\n")
		}
		raw, err := json.Marshal(map[string]any{"name": "many", "time_limit": 1, "private_tests": map[string]any{"input": in, "output": out}})
		if err != nil {
			t.Fatal(err)
		}
		var blobs uploads
		all, err := CodeContests(t.Context(), bytes.NewReader(raw), blobs.take)
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		spec, err := all[0].Job(&Solution{Name: "x", Language: "python", Source: "pass"})
		if err != nil {
			t.Fatal(err)
		}
		if raw, err = json.Marshal(spec); err != nil || len(raw) > int(job.MaxSpec) || blobs == 0 {
			t.Errorf("%v: a job of %d bytes, with %d blobs", err, len(raw), blobs)
		}
	}
}

func TestCodeContests(t *testing.T) {
	t.Parallel()
	const one = `{"name":"1_A. Sums","description":"x","public_tests":{"input":["1 2\n"],"output":["3\n"]},"private_tests":{"input":["4 5\n"],"output":["9\n"]},
		"time_limit":{"seconds":1,"nanos":500000000},"memory_limit_bytes":268435456,"solutions":{"language":[3,1,2],"solution":["print(1)","print 1","int main(){}"]},
		"incorrect_solutions":[{"language":4,"solution":"class Main {}"}]}`
	for _, text := range []string{one, " \n[" + one + "]", one + "\n" + strings.Replace(one, "1_A", "1_B", 1)} {
		var blobs uploads
		all, err := CodeContests(t.Context(), strings.NewReader(text), blobs.take)
		if err != nil {
			t.Fatal(err)
		}
		p := all[0]
		if len(all) != strings.Count(text, `"name"`) || len(p.Tests.Stdio) != 2 || p.Tests.Stdio[1].Wall != job.Duration(1500*time.Millisecond) || p.Tests.Stdio[0].Name != "public 1" || p.Memory != 256*job.MiB {
			t.Errorf("%+v", p)
		}
		if len(p.Solutions) < 2 || p.Solutions[0].Language != "python" || p.Solutions[1].Language != "cpp" || len(p.Notes) == 0 {
			t.Errorf("%+v, %q", p.Solutions, p.Notes)
		}
		if s, err := p.Job(&p.Solutions[0]); err != nil || s.Labels["expected"] != "accepted" {
			t.Errorf("%+v, %v", s, err)
		}
	}
	for text, want := range map[string]string{
		"":                    "no problem",
		"[]":                  "no problem",
		`{"public_tests":{}}`: "no name",
		`{"name":"x"}`:        "no tests",
		`{"name":"x","public_tests":{"input":["1"],"output":[]}}`: "1 inputs and 0 outputs",
		`{"name":"x","time_limit":"soon"}`:                        "time_limit is neither",
		`{"name":"x","time_limit":-1}`:                            "at most an hour",
		`{"name":"x","time_limit":0}`:                             "time_limit is 0 seconds",
		`{"name":"x","time_limit":{"seconds":0}}`:                 "time_limit is 0 seconds",
		`{"name":"x","solutions":7}`:                              "solutions are neither",
		`{"name":"x"`:                                             "problem 1",
	} {
		var blobs uploads
		if _, err := CodeContests(t.Context(), strings.NewReader(text), blobs.take); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
