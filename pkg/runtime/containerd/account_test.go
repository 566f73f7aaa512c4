package containerd

import (
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// TestAccountsOfImages checks that programs have a user and a group with names at every isolation, whatever
// the image's account files, and even if a job writes over /etc.
func TestAccountsOfImages(t *testing.T) {
	r, isolations := everywhere(t)
	root := "root:x:0:0:root:/root:/bin/bash\n"
	for name, c := range map[string]struct {
		layer []entry
		edit  func(*policy.Policy)
		want  string
	}{
		"none":      {layer: []entry{file("etc/.wh.passwd", 0, ""), file("etc/.wh.group", 0, "")}, want: "assay assay assay /workspace\n"},
		"its-own":   {layer: []entry{file("etc/passwd", 0o644, root+"node:x:1000:1000::/home/node:/bin/bash\n")}, want: "node assay node /home/node\n"},
		"root-only": {layer: []entry{file("etc/passwd", 0o600, root)}, want: "assay assay assay /workspace\n"},
		"over":      {edit: writes("/workspace", "/tmp", "/etc"), want: "assay assay assay /workspace\n"},
	} {
		image := "assay.local/accounts-" + name + ":1"
		derived(t, r, image, nil, c.layer)
		for _, isolation := range isolations {
			rep, err := try(t, r, isolation, image, runtime.Attempt{Program: sh(`echo "$(id -un) $(id -gn) $USER $(getent passwd 1000 | cut -d: -f6)"`)}, c.edit)
			if err != nil {
				t.Fatalf("%s, %s: %v", isolation, name, err)
			}
			if rep.Outcome != job.Succeeded || rep.Stdout.Text != c.want {
				t.Errorf("%s, %s: %s %s %q %q, want %q", isolation, name, rep.Outcome, rep.Message, rep.Stdout.Text, rep.Stderr.Text, c.want)
			}
		}
	}
}
