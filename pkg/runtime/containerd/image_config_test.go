package containerd

import (
	"archive/tar"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

// TestConfigurationOfImages checks that commands get the directory and environment of the image's
// configuration. The result reports that the user is ignored. On 18664e0 all began in /workspace, without a
// report about the user.
func TestConfigurationOfImages(t *testing.T) {
	r, isolations := everywhere(t)
	dirs := []entry{
		{Header: tar.Header{Name: "srv/app", Typeflag: tar.TypeDir, Mode: 0o755}},
		{Header: tar.Header{Name: "srv/shut", Typeflag: tar.TypeDir, Mode: 0o700}},
		{Header: tar.Header{Name: "srv/link", Typeflag: tar.TypeSymlink, Linkname: "/srv/app"}},
		{Header: tar.Header{Name: "srv/out", Typeflag: tar.TypeSymlink, Linkname: "../../../../../../etc"}},
	}
	const note = `the image's user "app" is not used: programs are user 1000 of their sandbox`
	for name, c := range map[string]struct {
		dir, user, asked string
		want             string
		feedback         []string
	}{
		"app":     {dir: "/srv/app", want: "/srv/app"},
		"asked":   {dir: "/srv/app", asked: "/tmp", want: "/tmp"},
		"root":    {dir: "/", user: "root:root", want: "/workspace"},
		"none":    {user: "0", want: "/workspace"},
		"missing": {dir: "/srv/none", want: "/workspace"},
		"shut":    {dir: "/srv/shut", want: "/workspace"},
		"link":    {dir: "/srv/link/", want: "/srv/app"},
		"out":     {dir: "/srv/out", want: "/etc"},
		"odd":     {dir: "srv/app", want: "/workspace"},
		"user":    {dir: "/srv/app", user: "app:app", want: "/srv/app", feedback: []string{note}},
	} {
		image := "assay.local/configured-" + name + ":1"
		derived(t, r, image, func(i *ocispec.Image) {
			i.Config.WorkingDir, i.Config.User, i.Config.Env = c.dir, c.user, append(slices.Clip(i.Config.Env), "OF_IMAGE=yes")
		}, dirs)
		for _, isolation := range isolations {
			program := sh("pwd -P", "id -u", "echo $OF_IMAGE")
			program.Command.Dir = c.asked
			rep, err := try(t, r, isolation, image, runtime.Attempt{Program: program}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if want := c.want + "\n1000\nyes\n"; rep.Outcome != job.Succeeded || rep.Stdout.Text != want || !cmp.Equal(rep.Feedback, c.feedback) {
				t.Errorf("%s, %s: %s %s %q %q %q", isolation, name, rep.Outcome, rep.Message, rep.Stdout.Text, rep.Stderr.Text, rep.Feedback)
			}
			if name != "app" && name != "user" {
				break // one isolation does: they differ in how a program enters its directory only
			}
		}
		if name == "user" {
			steps := job.Program{Command: &job.Command{Steps: []job.Step{{Name: "where", Argv: []string{"pwd"}}}}}
			rep, err := try(t, r, isolations[0], image, runtime.Attempt{Program: steps}, nil)
			if err != nil || rep.Stdout.Text != "/srv/app\n" {
				t.Errorf("steps: %+v, %v", rep, err)
			}
			rep, err = try(t, r, isolations[0], image, runtime.Attempt{Program: pySnippet("import os; print(os.getcwd(), os.environ['OF_IMAGE'])")}, nil)
			if err != nil || rep.Stdout.Text != "/workspace yes\n" || len(rep.Feedback) > 0 {
				t.Errorf("python: %+v, %v", rep, err)
			}
		}
	}
}
