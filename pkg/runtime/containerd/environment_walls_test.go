package containerd

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/environment"
	"github.com/assay-run/assay/pkg/runtime/environment/environmenttest"
	"github.com/assay-run/assay/pkg/runtime/runtimetest"
)

// sdist returns a source package whose build runs code and then makes a wheel of
// one module.
func sdist(t *testing.T, name, version, code, module string) []byte {
	t.Helper()
	backend := `
import os, sys, zipfile
def prepare_metadata_for_build_wheel(directory, config_settings=None):
    info = ` + fmt.Sprintf("%q", name+"-"+version+".dist-info") + `
    os.mkdir(os.path.join(directory, info))
    with open(os.path.join(directory, info, "METADATA"), "w") as f:
        f.write(` + fmt.Sprintf("%q", "Metadata-Version: 2.1\nName: "+name+"\nVersion: "+version+"\n") + `)
    return info
def build_wheel(directory, config_settings=None, metadata_directory=None):
    attack()
    name, version, module = ` + fmt.Sprintf("%q, %q, %q", name, version, module) + `
    module = module.replace("RANDOM", os.urandom(8).hex())
    info = name + "-" + version + ".dist-info/"
    file = name + "-" + version + "-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(directory, file), "w") as z:
        z.writestr(name + "/__init__.py", module)
        z.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: %s\nVersion: %s\n" % (name, version))
        z.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr(info + "RECORD", "")
    return file
def attack():
    pass
` + code
	dir := name + "-" + version + "/"
	var b bytes.Buffer
	packed := gzip.NewWriter(&b)
	w := tar.NewWriter(packed)
	for file, text := range map[string]string{
		"PKG-INFO":       "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\n",
		"pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n[project]\nname = '" + name + "'\nversion = '" + version + "'\n",
		"backend.py":     backend,
	} {
		if err := w.WriteHeader(&tar.Header{Name: dir + file, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// everyIsolation is where the packages of jobs are attacked from.
var everyIsolation = []policy.Isolation{policy.Cell, policy.Task, policy.GVisor}

const honest = "WHO = 'honest'\n"

// says runs code of tenant with packages, and returns the output.
func says(t *testing.T, r *Runtime, tenant string, isolation policy.Isolation, code string, packages ...string) (string, []string) {
	t.Helper()
	rep, err := ofTenant(t, r, tenant, isolation, pySnippet(code), packages...)
	if err != nil {
		t.Fatalf("%s with %q: %v", tenant, packages, err)
	}
	if rep.Outcome != job.Succeeded {
		t.Fatalf("%s with %q: %s %+v %s", tenant, packages, rep.Outcome, rep.Exception, rep.Stderr.Text)
	}
	return strings.TrimSpace(rep.Stdout.Text), rep.Packages
}

// TestBuildCannotPassForAnotherPackage checks a source package whose build claims that another package was
// installed, and brings a package of that name. Worked on 5ee7338: the next tenant that requested the other
// package got this one, under the right name and hash.
func TestBuildCannotPassForAnotherPackage(t *testing.T) {
	t.Parallel()
	good := environmenttest.Wheel(t, "assay_good", "1.0", honest)
	packages := map[string][]byte{"assay_good-1.0-py3-none-any.whl": good}
	x := environmenttest.Serve(t, packages)
	packages["assay_evil-1.0.tar.gz"] = sdist(t, "assay_evil", "1.0", `
def attack():
    import json, time
    report = {"install": [{"metadata": {"name": "assay_good", "version": "1.0"}, "download_info": {"archive_info": {"hashes": {"sha256": "`+x.Sums["assay_good"]+`"}}}}]}
    for place in ("/workspace/report.json", "/tmp/report.json"):
        try:
            with open(place, "w") as f: json.dump(report, f)
        except OSError: pass
def build_wheel(directory, config_settings=None, metadata_directory=None):
    attack()
    file = "assay_evil-1.0-py3-none-any.whl"
    info = "assay_evil-1.0.dist-info/"
    with zipfile.ZipFile(os.path.join(directory, file), "w") as z:
        z.writestr("assay_good/__init__.py", "WHO = 'evil'\n")
        z.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: assay_evil\nVersion: 1.0\n")
        z.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr(info + "RECORD", "")
    return file
`, "")
	x = environmenttest.Serve(t, packages)
	r := newRuntime(t, func(c *Config) {
		withGVisor(t)(c)
		c.Index, c.Environments = environment.Index{URL: x.URL}, t.TempDir()
	})
	const who = "import assay_good; print(assay_good.WHO)"
	for _, isolation := range everyIsolation {
		_, have := says(t, r, "attacker", isolation, who, "assay_evil")
		if len(have) != 1 || !strings.HasPrefix(have[0], "assay_evil==1.0 ") {
			t.Errorf("%s: the record of the attacker's job names %q", isolation, have)
		}
		got, have := says(t, r, "victim", isolation, who, "assay_good==1.0")
		if got != "honest" || len(have) != 1 || have[0] != "assay_good==1.0 --hash=sha256:"+x.Sums["assay_good"] {
			t.Errorf("%s: the victim imported what is %s, recorded as %q", isolation, got, have)
		}
	}
}

// A source package overwrites the other packages of its list, wherever a build
// has them. Worked on 5ee7338.
func TestBuildCannotChangeOtherPackages(t *testing.T) {
	t.Parallel()
	x := environmenttest.Serve(t, map[string][]byte{
		"assay_good-1.0-py3-none-any.whl": environmenttest.Wheel(t, "assay_good", "1.0", honest),
		"assay_evil-1.0.tar.gz": sdist(t, "assay_evil", "1.0", `
def attack():
    for top in ("/tmp", "/workspace", "/var"):
        for where, _, files in os.walk(top):
            for f in files:
                if f.startswith("assay_good"):
                    with zipfile.ZipFile(os.path.join(where, f)) as z: old = {n: z.read(n) for n in z.namelist()}
                    old["assay_good/__init__.py"] = b"WHO = 'evil'\n"
                    with zipfile.ZipFile(os.path.join(where, f), "w") as z:
                        for n, b in old.items(): z.writestr(n, b)
`, ""),
	})
	r := newRuntime(t, func(c *Config) { withGVisor(t)(c); c.Index = environment.Index{URL: x.URL} })
	const who = "import assay_good, assay_evil; print(assay_good.WHO)"
	for _, isolation := range everyIsolation {
		for _, tenant := range []string{"attacker", "victim"} {
			if got, have := says(t, r, tenant, isolation, who, "assay_good==1.0", "assay_evil"); got != "honest" {
				t.Errorf("%s: %s imported what is %s, recorded as %q", isolation, tenant, got, have)
			}
		}
	}
}

// TestBuildsOfSourceAreNotShared checks that tenants share neither a build from source nor its result. On
// 5ee7338 they did.
func TestBuildsOfSourceAreNotShared(t *testing.T) {
	t.Parallel()
	x := environmenttest.Serve(t, map[string][]byte{"assay_odd-1.0.tar.gz": sdist(t, "assay_odd", "1.0", "", "WHO = 'RANDOM'\n")})
	kept := t.TempDir()
	r := newRuntime(t, func(c *Config) { withGVisor(t)(c); c.Index, c.Environments = environment.Index{URL: x.URL}, kept })
	const who = "import assay_odd; print(assay_odd.WHO)"
	first, have := says(t, r, "one", policy.Cell, who, "assay_odd")
	for _, isolation := range everyIsolation {
		if again, _ := says(t, r, "one", isolation, who, "assay_odd"); again != first {
			t.Errorf("%s: the same tenant got %s, then %s", isolation, first, again)
		}
		if other, _ := says(t, r, "two", isolation, who, "assay_odd"); other == first {
			t.Errorf("%s: another tenant got the same build", isolation)
		}
	}
	if len(have) != 1 || !strings.HasPrefix(have[0], "assay_odd==1.0 --hash=sha256:") || strings.Contains(have[0], x.Sums["assay_odd"]) {
		t.Errorf("recorded as %q", have)
	}
}

// TestResolvingRunsNoCode checks a wheel that depends on a source package by address. pip builds it while it
// resolves, despite the option for wheels only. Worked on 5ee7338.
func TestResolvingRunsNoCode(t *testing.T) {
	t.Parallel()
	files := map[string][]byte{"assay_direct-1.0.tar.gz": sdist(t, "assay_direct", "1.0", `
def prepare_metadata_for_build_wheel(directory, config_settings=None):
    raise RuntimeError("code ran: uid %d" % os.getuid())
`, "")}
	x := environmenttest.Serve(t, files)
	at := strings.TrimSuffix(x.URL, "/simple") + "/files/assay_direct-1.0.tar.gz"
	files["assay_good-1.0-py3-none-any.whl"] = environmenttest.WheelOf(t, "assay_good", "1.0", map[string]string{
		"METADATA": "Metadata-Version: 2.1\nName: assay_good\nVersion: 1.0\nRequires-Dist: assay_direct @ " + at + "\n",
	})
	y := environmenttest.Serve(t, files)
	r := newRuntime(t, func(c *Config) {
		withGVisor(t)(c)
		c.Index = environment.Index{URL: y.URL, Allow: []string{strings.TrimPrefix(strings.TrimSuffix(x.URL, "/simple"), "http://")}}
	})
	for _, isolation := range everyIsolation {
		// Of a tenant each: what failed just now is not tried again.
		_, err := ofTenant(t, r, "attacker at "+string(isolation), isolation, pySnippet("print(1)"), "assay_good")
		if failure := new(runtime.BuildError); !errors.As(err, &failure) || strings.Contains(err.Error(), "code ran") {
			t.Errorf("%s: code of a package ran while its list was resolved: %v", isolation, err)
		}
	}
}

// TestLayerIsNoWayToTheHost checks a package that makes /tmp a link to a directory of the host, which
// gVisor's mount of /tmp followed. Worked on 5ee7338, which kept files that a build wrote below its root.
func TestLayerIsNoWayToTheHost(t *testing.T) {
	t.Parallel()
	bait, err := os.MkdirTemp("/var/tmp", "assay-bait-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(bait)
	x := environmenttest.Serve(t, map[string][]byte{"assay_evil-1.0.tar.gz": sdist(t, "assay_evil", "1.0", `
def attack():
    os.makedirs("/workspace/root", exist_ok=True)
    os.symlink("/var/tmp", "/workspace/root/tmp")
`, "WHO = 'evil'")})
	r := newRuntime(t, func(c *Config) { withGVisor(t)(c); c.Index = environment.Index{URL: x.URL} })
	made := runtimetest.Plan(t, policy.Host{Isolations: []policy.Isolation{policy.GVisor}}, policy.GVisor, func(p *policy.Policy) {
		p.Packages, p.Write = []string{"assay_evil"}, []string{"/workspace"}
	})
	look := pySnippet("import os, assay_evil\nprint(os.listdir('/tmp'))")
	s, err := r.Acquire(t.Context(), runtime.Key{Tenant: "test", Image: testenv.Image, Isolation: policy.GVisor, Kind: "python", Packages: "assay_evil"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rep, err := s.Run(t.Context(), runtime.Attempt{Program: look, Plan: made})
	if err != nil || rep.Stdout.Text != "[]\n" {
		t.Errorf("/tmp at gvisor shows %q (%v)", rep.Stdout.Text, err)
	}
}

// TestWheelsThatAreRefused checks that malformed wheels end the job, and that nothing of them is used. On
// 5ee7338 the first two were installed.
func TestWheelsThatAreRefused(t *testing.T) {
	t.Parallel()
	x := environmenttest.Serve(t, map[string][]byte{
		"assay_python-1.0-py3-none-any.whl": environmenttest.WheelOf(t, "assay_python", "1.0", map[string]string{"assay_python-1.0.data/data/bin/python3": "#!/bin/sh\necho evil\n"}),
		"assay_stdlib-1.0-py3-none-any.whl": environmenttest.WheelOf(t, "assay_stdlib", "1.0", map[string]string{"assay_stdlib-1.0.data/data/lib/python3.11/sitecustomize.py": "1"}),
		"assay_other-1.0.tar.gz": sdist(t, "assay_other", "1.0", `
def build_wheel(directory, config_settings=None, metadata_directory=None):
    file = "assay_good-1.0-py3-none-any.whl"
    info = "assay_good-1.0.dist-info/"
    with zipfile.ZipFile(os.path.join(directory, file), "w") as z:
        z.writestr("assay_good/__init__.py", "WHO = 'evil'\n")
        z.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: assay_good\nVersion: 1.0\n")
        z.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr(info + "RECORD", "")
    return file
`, ""),
	})
	r := newRuntime(t, func(c *Config) { withGVisor(t)(c); c.Index = environment.Index{URL: x.URL} })
	for name, want := range map[string]string{
		"assay_python": "/usr/local/bin/python3: the image has a program of that name",
		"assay_stdlib": "/usr/local/lib/python3.11/sitecustomize.py",
		"assay_other":  "",
	} {
		for _, isolation := range everyIsolation { // the last two get the result of the first
			_, err := ofTenant(t, r, "attacker", isolation, pySnippet("print(1)"), name)
			if failure := new(runtime.BuildError); !errors.As(err, &failure) || !strings.Contains(failure.Message, want) {
				t.Errorf("%s: %s: %v, want %q", isolation, name, err, want)
			}
		}
	}
}
