package containerd

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/sandbox"
)

const repoImage = "assay.local/repo:1"

// repo imports an image with a repository at /testbed, as such images have it: all of
// it is root's, and root alone may enter. Two layers have parts of it.
func repo(t *testing.T, r *Runtime) {
	t.Helper()
	owned := file("testbed/theirs", 0o600, "of another user\n")
	owned.Uid, owned.Gid = 12345, 1000
	deeper := owned
	deeper.Name = "testbed/deeper/theirs"
	derived(t, r, repoImage, nil,
		[]entry{
			{Header: tar.Header{Name: "testbed", Typeflag: tar.TypeDir, Mode: 0o700}},
			{Header: tar.Header{Name: "testbed/pkg", Typeflag: tar.TypeDir, Mode: 0o700}},
			file("testbed/pkg/a.py", 0o600, "print('broken')\n"), file("testbed/gone", 0o644, "of the first layer\n"),
			file("testbed/run", 0o700|0o4000, "#!/bin/sh\nid -u\n"), file("testbed/large", 0o444, strings.Repeat("x", 8<<20)),
			{Header: tar.Header{Name: "testbed/passwd", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}},
			{Header: tar.Header{Name: "testbed/up", Typeflag: tar.TypeSymlink, Linkname: ".."}},
			{Header: tar.Header{Name: "testbed/device", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 5, Mode: 0o666}},
			{Header: tar.Header{Name: "testbed/pipe", Typeflag: tar.TypeFifo, Mode: 0o666}},
			owned, deeper,
			{Header: tar.Header{Name: "elsewhere", Typeflag: tar.TypeSymlink, Linkname: "testbed"}},
			{Header: tar.Header{Name: "nothing", Typeflag: tar.TypeDir, Mode: 0o755}},
			file("workspace/here", 0o644, "in the image\n"), file("tmp/there", 0o644, "in the image\n"),
		},
		[]entry{file("testbed/.wh.gone", 0, ""), file("testbed/second", 0o644, "of the second layer\n")})
}

func writes(paths ...string) func(*policy.Policy) {
	return func(p *policy.Policy) { p.Write = paths }
}

// TestWriteOverTheImage checks that a writable directory of the image is the job's own copy. The program
// changes, removes and adds files of any owner, and the next job finds the image's files. It was empty on
// 18664e0.
func TestWriteOverTheImage(t *testing.T) {
	r, isolations := everywhere(t)
	repo(t, r)
	for _, isolation := range isolations {
		t.Run(string(isolation), func(t *testing.T) {
			for range 2 { // nothing of the first is left for the second
				got := map[string]string{}
				rep, err := try(t, r, isolation, repoImage, runtime.Attempt{
					Program: sh("cd /testbed", "test ! -e gone", "cat second pkg/a.py", "ls -A", "stat -c '%U %a' . pkg pkg/a.py | head -c 60 >&2",
						"sed -i s/broken/mended/ pkg/a.py", "python3 pkg/a.py", "rm second", "cat theirs", "echo more >>theirs", "chmod 644 deeper/theirs", "cat deeper/theirs", "mv pkg moved", "mkdir pkg", "echo new >pkg/new", "chmod 755 .",
						"cat input deep/er/input", "./run"),
					Files: []runtime.File{{Path: "/testbed/input", Data: []byte("given\n")}, {Path: "/testbed/deep/er/input", Data: []byte("deep\n")}},
					Collect: func(_ context.Context, path string, _ int64, rd io.Reader) error {
						b, err := io.ReadAll(rd)
						got[path] = string(b)
						return err
					},
				}, func(p *policy.Policy) {
					p.Write = append(p.Write, "/testbed")
					p.Artifacts.Paths = []string{"/testbed/moved/*", "/testbed/pkg/*", "/testbed/s*", "/testbed/passwd", "/testbed/device", "/testbed/pipe"}
				})
				if err != nil {
					t.Fatal(err)
				}
				want := "of the second layer\nprint('broken')\ndeep\ndeeper\ndevice\ninput\nlarge\npasswd\npipe\npkg\nrun\nsecond\ntheirs\nup\nmended\nof another user\nof another user\ngiven\ndeep\n1000\n"
				if rep.Outcome != job.Succeeded || rep.Stdout.Text != want {
					t.Fatalf("%s %s\n%s%s", rep.Outcome, rep.Message, cmp.Diff(want, rep.Stdout.Text), rep.Stderr.Text)
				}
				if diff := cmp.Diff(map[string]string{"/testbed/moved/a.py": "print('mended')\n", "/testbed/pkg/new": "new\n"}, got); diff != "" {
					t.Errorf("artifacts: %s%v", diff, rep.Feedback)
				}
			}
		})
	}
}

// TestWriteBesidesTheImage checks that a writable directory that is not in the image, or is empty there,
// begins empty, as does /tmp. Other directories stay as in the image.
func TestWriteBesidesTheImage(t *testing.T) {
	r, isolations := everywhere(t)
	repo(t, r)
	for _, isolation := range isolations {
		rep, err := try(t, r, isolation, repoImage, runtime.Attempt{Program: sh(
			"ls -A /nothing /new /elsewhere /tmp", "cat /workspace/here", "echo x | tee /nothing/a /new/a /elsewhere/a /workspace/here >/dev/null",
			"if cat /testbed/second; then exit 7; fi")}, writes("/workspace", "/tmp", "/nothing", "/new", "/elsewhere"))
		if err != nil {
			t.Fatal(err)
		}
		if want := "/elsewhere:\n\n/new:\n\n/nothing:\n\n/tmp:\nin the image\n"; rep.Outcome != job.Succeeded || rep.Stdout.Text != want {
			t.Errorf("%s: %s %s %q %q", isolation, rep.Outcome, rep.Message, rep.Stdout.Text, rep.Stderr.Text)
		}
	}
}

// TestHostileDirectoriesOfImages checks that an image's directory gives a program nothing more: no device, no
// link's target, and no more than its disk and files.
func TestHostileDirectoriesOfImages(t *testing.T) {
	r, isolations := everywhere(t)
	repo(t, r)
	for _, isolation := range isolations {
		for name, c := range map[string]struct {
			program job.Program
			files   string // an input's path
			edit    func(*policy.Policy)
			want    job.Outcome
			field   string // that the job is refused for
		}{
			"device":   {program: sh("cd /testbed", "! head -c 1 device"), want: job.Succeeded},
			"link":     {program: sh("cd /testbed", "! echo x >>passwd", "! touch up/etc/x"), want: job.Succeeded},
			"theirs":   {program: sh("cd /testbed", "cat theirs", "rm -f theirs"), want: job.Succeeded},
			"trusted":  {program: sh("cd /testbed", "! python3 -c 'import os; os.setxattr(\"pkg\", \"trusted.overlay.redirect\", b\"/root\")'"), want: job.Succeeded},
			"disk":     {program: sh("cd /testbed", "chmod u+w large", "echo x >>large"), edit: func(p *policy.Policy) { p.Disk = 4 * job.MiB }, want: job.DiskLimit},
			"fill":     {program: sh("head -c 6M /dev/zero >/testbed/zeros"), edit: func(p *policy.Policy) { p.Disk = 4 * job.MiB }, want: job.DiskLimit},
			"files":    {program: sh("cd /testbed", "for i in $(seq 100); do : >f$i; done"), edit: func(p *policy.Policy) { p.Files = 50 }, want: job.DiskLimit},
			"replaced": {program: sh("cat /testbed/passwd"), files: "/testbed/passwd", want: job.Succeeded},
			"through":  {program: sh("true"), files: "/testbed/up/etc/evil", field: "files"},
			"into":     {program: sh("true"), files: "/testbed/second/x", field: "files"},
			"over":     {program: sh("true"), files: "/testbed/pkg", field: "files"},
		} {
			if name == "device" && isolation == policy.GVisor {
				continue // of its own kernel's devices
			}
			a := runtime.Attempt{Program: c.program}
			if c.files != "" {
				a.Files = []runtime.File{{Path: c.files, Data: []byte("input\n")}}
			}
			rep, err := try(t, r, isolation, repoImage, a, func(p *policy.Policy) {
				p.Write = append(p.Write, "/testbed")
				if c.edit != nil {
					c.edit(p)
				}
			})
			switch {
			case err != nil:
				t.Errorf("%s, %s: %v", isolation, name, err)
			case c.field != "":
				if rep.Outcome != job.SetupError || !strings.HasPrefix(rep.Message, c.field+": ") {
					t.Errorf("%s, %s: %s %s, want it to be said of %s", isolation, name, rep.Outcome, rep.Message, c.field)
				}
			case rep.Outcome != c.want || name == "replaced" && rep.Stdout.Text != "input\n":
				t.Errorf("%s, %s: %s %s %q %q, want %s", isolation, name, rep.Outcome, rep.Message, rep.Stdout.Text, rep.Stderr.Text, c.want)
			}
		}
	}
	rep, err := try(t, r, policy.Task, testenv.Image, runtime.Attempt{Program: sh("grep -c root /etc/passwd")}, nil)
	if err != nil || rep.Stdout.Text != "1\n" {
		t.Errorf("another image: %v %v", rep, err)
	}
}

// TestNothingIsLaidOverAnEmptyDirectory checks that jobs that do not write over an image have no overlay and
// no inodes for one.
func TestNothingIsLaidOverAnEmptyDirectory(t *testing.T) {
	r := newRuntime(t, nil)
	img, err := r.images.Get(t.Context(), testenv.Image)
	if err != nil {
		t.Fatal(err)
	}
	if o, err := r.images.Overlays(img, sandbox.Layout{Write: []string{"/workspace", "/tmp", "/none"}}); o != nil || err != nil {
		t.Errorf("%+v, %v", o, err)
	}
	o, err := r.images.Overlays(img, sandbox.Layout{Write: []string{"/usr/share", "/bin", "/etc"}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := o.Paths(), []string{"/usr/share", "/etc"}; !slices.Equal(got, want) { // /bin is a link
		t.Errorf("%q, want %q", got, want)
	}
}

// TestNotesOfOverlaysInImages checks that overlay attributes in the files of a tenant's image lead nowhere
// else, and affect only that tenant.
func TestNotesOfOverlaysInImages(t *testing.T) {
	r, isolations := everywhere(t)
	noted := func(e entry, notes map[string]string) entry {
		e.Format, e.PAXRecords = tar.FormatPAX, map[string]string{}
		for k, v := range notes {
			e.PAXRecords["SCHILY.xattr.trusted.overlay."+k] = v
		}
		return e
	}
	dir := func(name string) entry { return entry{Header: tar.Header{Name: name, Typeflag: tar.TypeDir}} }
	for i, notes := range []map[string]string{
		{"redirect": "/../../../../etc"}, {"redirect": "/etc"}, {"redirect": ".."}, {"opaque": "y"}, {"metacopy": ""}, {"metacopy": "", "redirect": "/etc/shadow"},
		{"origin": "noise"}, {"impure": "y"}, {"upper": "noise"},
	} {
		image := fmt.Sprintf("example.com/noted:%d", i)
		derived(t, r, image, nil, []entry{dir("testbed"), dir("testbed/d"), file("testbed/f", 0o644, "f\n"), file("testbed/g", 0o644, "g\n")},
			[]entry{noted(dir("testbed/d"), notes), noted(file("testbed/f", 0o644, "f\n"), notes)})
		for _, isolation := range isolations {
			rep, err := try(t, r, isolation, image, runtime.Attempt{Program: sh("cd /testbed", "ls d || true", "cat f || true", "echo x >>f || true", "! test -e d/hostname", "cat g")},
				func(p *policy.Policy) { p.Write = append(p.Write, "/testbed") })
			if err != nil && !errors.Is(err, runtime.ErrImage) && !errors.Is(err, job.ErrInvalid) {
				t.Errorf("%s, %v: %v", isolation, notes, err)
			} else if err == nil && strings.Contains(rep.Stdout.Text, "root:") {
				t.Errorf("%s, %v: %q", isolation, notes, rep.Stdout.Text)
			}
		}
	}
}

// TestWriteOverTheLibraries checks that programs find their libraries if they write over those of the image.
func TestWriteOverTheLibraries(t *testing.T) {
	r, isolations := everywhere(t)
	for _, isolation := range isolations {
		for _, program := range []job.Program{
			pySnippet("import numpy, ssl, os; open('/usr/lib/python3/dist-packages/mine.py', 'w').write('x = 1'); import mine; print(numpy.ones(2).sum(), mine.x)"),
			sh("echo 'x = 1' >/usr/lib/python3/dist-packages/mine.py", "python3 -c 'import numpy, ssl, mine; print(numpy.ones(2).sum(), mine.x)'"),
		} {
			rep, err := try(t, r, isolation, testenv.Image, runtime.Attempt{Program: program}, writes("/workspace", "/tmp", "/usr"))
			if err != nil || rep.Outcome != job.Succeeded || rep.Stdout.Text != "2.0 1\n" {
				t.Errorf("%s %s: %+v, %v", isolation, program.Kind(), rep, err)
			}
		}
	}
}
