package dropin_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

const (
	fusion = "/sandboxfusion/run_code"
	piston = "/piston/api/v2/execute"
	judge  = "/code-judge/judge"
)

// quoted returns text as JSON.
func quoted(s string) string {
	raw, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// Every hostile request gets a short error that names the field and has no terminal escapes.
func TestHostileRequestsAreRefused(t *testing.T) {
	t.Parallel()
	pistonFile := func(name, content, encoding string) string {
		return fmt.Sprintf(`{"language":"c","version":"*","files":[{"content":"x"},{"name":%s,"content":%s,"encoding":%s}]}`, quoted(name), quoted(content), quoted(encoding))
	}
	long := strings.Repeat("x", 1<<20)
	for _, c := range []struct{ path, body, field string }{
		{fusion, `{"language":"python","code":"1","run_timeout":NaN}`, "json"},
		{fusion, `{"language":"python","code":"1","run_timeout":Infinity}`, "json"},
		{fusion, `{"language":"python","code":"1","run_timeout":"10"}`, "run_timeout"},
		{fusion, `{"language":"python","code":"1","run_timeout":0}`, "run_timeout"},
		{fusion, `{"language":"python","code":"1","run_timeout":-1e308}`, "run_timeout"},
		{fusion, `{"language":"python","code":"1","compile_timeout":-0.0}`, "compile_timeout"},
		{fusion, `{"language":"python","code":"1","memory_limit_MB":1e999}`, "memory_limit_MB"},
		{fusion, `{"language":"python","code":["1"]}`, "code"},
		{fusion, `{"language":"","code":"1"}`, "language"},
		{fusion, `{"language":"` + long + `","code":"1"}`, "language"},
		{fusion, `{"language":"python\u0000","code":"1"}`, "language"},
		{fusion, `{"language":"\u001b[2Jpython","code":"1"}`, "language"},
		{fusion, `{"language":"../python","code":"1"}`, "language"},
		{fusion, `{"language":"pуthon","code":"1"}`, "language"}, // the second letter is Cyrillic
		{fusion, `{"language":["python"],"code":"1"}`, "language"},
		{fusion, `{"language":"python","code":"1","files":{"a/../../x":"aGk="}}`, "files"},
		{fusion, `{"language":"python","code":"1","files":{"":"aGk="}}`, "files"},
		{fusion, `{"language":"python","code":"1","files":{".":"aGk="}}`, "files"},
		{fusion, `{"language":"python","code":"1","files":{"main.py":"aGk="}}`, "files"},
		{fusion, `{"language":"python","code":"1","files":{"./main.py":"aGk="}}`, "files"},
		{fusion, `{"language":"python","code":"1","files":{"x":{"a":1}}}`, "files"},
		{fusion, `{"language":"python","code":"1","files":{"x":1}}`, "files"},
		{fusion, `{"language":"python","code":"1","files":{"x":"aGk=","./x":"aGk="}}`, "files"},
		{fusion, `{"language":"python","code":"1","fetch_files":["../../etc/passwd"]}`, "fetch_files"},
		{fusion, `{"language":"python","code":"1","fetch_files":["/"]}`, "fetch_files"},
		{fusion, `{"language":"python","code":"1","fetch_files":[""]}`, "fetch_files"},
		{piston, pistonFile("../x", "x", ""), "files[1].name"},
		{piston, pistonFile("/etc/passwd", "x", ""), "files[1].name"},
		{piston, pistonFile("a/../../x", "x", ""), "files[1].name"},
		{piston, pistonFile("main.c", "x", ""), "files[1].name"},
		{piston, pistonFile("x", "zz", "hex"), "files[1].content"},
		{piston, pistonFile("x", "a", "base64"), "files[1].content"},
		{piston, `{"language":"c","version":"*","files":[{"content":"x"}],"run_timeout":-1}`, "run_timeout"},
		{piston, `{"language":"c","version":"*","files":[{"content":"x"}],"run_cpu_time":-1}`, "run_cpu_time"},
		{piston, `{"language":"c","version":"*","files":[{"content":"x"}],"compile_timeout":1e999}`, "compile_timeout"},
		{piston, `{"language":"c","version":"*","files":[{"content":"x"}],"compile_cpu_time":0}`, "compile_cpu_time"},
		{piston, `{"language":"c","version":"*","files":["x"]}`, "files[0]"},
		{piston, `{"language":"c","version":"*","files":{"x":"y"}}`, "files"},
		{piston, `{"language":"c","version":"` + long + `7","files":[{"content":"x"}]}`, ""},
		{judge, `{"type":"` + long + `","solution":"1"}`, "type"},
		{judge, `{"type":"python","solution":null}`, "solution"},
		{judge, `{"type":"python","solution":"1","input":"\u0000"}`, "input"},
		{judge + "/batch", `{"submissions":[]}`, "submissions"},
		{judge + "/batch", `{"submissions":[` + strings.Repeat(`{},`, 10_000) + `{}]}`, "submissions"},
		{judge + "/batch", `{"submissions":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`, ""},
		{"/sandboxfusion/run_jupyter", `{"cells":["1"],"cell_timeout":-1}`, "cell_timeout"},
		{"/sandboxfusion/run_jupyter", `{"cells":["1"],"cell_timeout":1e300}`, "cell_timeout"},
		{"/sandboxfusion/run_jupyter", `{"cells":["1"],"total_timeout":-1}`, "total_timeout"},
		{"/sandboxfusion/run_jupyter", `{"cells":["1"],"kernel":"` + long + `"}`, "kernel"},
		{"/sandboxfusion/run_jupyter", `{"cells":["1"],"files":{"../x":"aGk="}}`, "files"},
	} {
		f := &fleet{result: json.RawMessage(printed)}
		resp := f.post(t, c.path, []byte(c.body))
		said := resp.Body.String()
		if c.field == "" && resp.Code == http.StatusOK {
			continue // as on the original server
		}
		if resp.Code < 400 || resp.Code >= 500 || f.runs > 0 || !strings.Contains(strings.ToLower(said), strings.ToLower(c.field)) {
			t.Errorf("%s %.100s: %d %.300s, want one that names %s", c.path, c.body, resp.Code, said, c.field)
		}
		if len(said) > 8<<10 || strings.ContainsAny(said, "\x00\x1b") {
			t.Errorf("%s %.100s: the answer has %d bytes: %.300q", c.path, c.body, len(said), said)
		}
	}
}

// Other hostile requests become jobs with allowed file paths and possible limits. The usual validation still follows.
func TestHostileRequestsBecomePlainJobs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ path, body string }{
		{fusion, `{"language":"python","code":"1","run_timeout":1e308,"compile_timeout":1e308,"memory_limit_MB":1e308}`},
		{fusion, `{"language":"python","code":"1","run_timeout":5e-324,"compile_timeout":5e-324,"memory_limit_MB":5e-324}`},
		{fusion, `{"language":"python","code":"1","memory_limit_MB":-1e308}`},
		{fusion, `{"language":" PYTHON ","code":"1"}`},
		{fusion, `{"language":"python","code":""}`},
		{fusion, `{"language":"cpp","code":"1","files":{"a/b/../c":"aGk=","-o":"aGk=","@x":"aGk=","sitecustomize.py":"aGk=",".bashrc":"aGk="}}`},
		{fusion, `{"language":"python","code":"1","fetch_files":["*","[a-z]?","**/x","a\\*"]}`},
		{fusion, `{"language":"python","code":"1","fetch_files":["/etc/shadow","/proc/self/environ"]}`},
		{piston, `{"language":"c","version":"*","files":[{"content":"x","name":"-o"}]}`},
		{piston, `{"language":"c","version":"*","files":[{"content":"x","name":"@options.c"}]}`},
		{piston, `{"language":"c","version":"*","files":[{"content":"x","name":".out/main"}]}`},
		{piston, `{"language":"c","version":"*","files":[{"content":"x"},{"name":".out/main","content":"AAAA","encoding":"base64"}]}`},
		{piston, `{"language":"c","version":"*","files":[{"content":"x"},{"name":"Makefile","content":"all: ; id"}],"args":["-o","@x"]}`},
		{piston, `{"language":"c","version":"*","files":[{"content":"x"}],"run_timeout":1e308,"run_memory_limit":1e308,"compile_memory_limit":-1e308,"run_cpu_time":1e308}`},
		{judge, `{"type":"cpp","solution":"1","expected_output":"\ufffd"}`},
	} {
		f := &fleet{result: json.RawMessage(printed)}
		resp := f.post(t, c.path, []byte(c.body))
		if resp.Code != http.StatusOK || f.runs != 1 {
			t.Errorf("%s %s: %d %.300s", c.path, c.body, resp.Code, resp.Body)
			continue
		}
		var spec job.Spec
		if err := json.Unmarshal(f.spec, &spec); err != nil {
			t.Fatal(err)
		}
		for name := range spec.Files {
			if path.Clean(name) != name || !strings.HasPrefix(name, "/workspace/") {
				t.Errorf("%s: a file lies at %s", c.body, name)
			}
		}
		p, err := policy.Parse(spec.Policy)
		if err != nil || p.Wall <= 0 || p.Wall > job.MaxWall || p.Memory <= 0 || p.CPUTime <= 0 || spec.ExpiresIn <= 0 {
			t.Errorf("%s: %v %+v", c.body, err, p)
		}
		for name := range spec.Program.Code.Files { // the compiling worker rejects these
			if odd := strings.HasPrefix(name, "-") || strings.HasPrefix(name, "@") || strings.HasPrefix(name, "."); odd && spec.Validate() == nil {
				t.Errorf("%s: the source %q is taken", c.body, name)
			}
		}
	}
}
