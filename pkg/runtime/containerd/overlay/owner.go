package overlay

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"

	"github.com/assay-run/assay/pkg/job"
)

// othersMost is how many files below a directory of an image may belong to others than
// its owner where a job writes to it: each is made the job's by itself.
const othersMost = 10_000

// others are what lies below a directory and does not belong to its owner.
type others struct {
	paths  []string // relative to the directory
	inodes int      // that they take in a scratch, with the directories that lead to them
	many   bool     // there are more
}

func listOthers(dir string, uid, gid int) (*others, error) {
	out, ways := &others{}, map[string]bool{}
	err := filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		if int(st.Uid) == uid && int(st.Gid) == gid {
			return nil
		}
		if len(out.paths) == othersMost {
			out.many = true
			return fs.SkipAll
		}
		rel, err := filepath.Rel(dir, at)
		if err != nil {
			return err
		}
		out.paths = append(out.paths, rel)
		for ; rel != "."; rel = path.Dir(rel) {
			ways[rel] = true
		}
		return nil
	})
	out.inodes = len(ways)
	return out, err
}

// give makes the program, the host's user uid, the owner of what belongs to others than
// the directory's owner. dir is the overlay's: of a file, its owner is all that is copied.
func (o *others) give(dir string, uid int) error {
	for _, p := range o.paths {
		if err := os.Lchown(filepath.Join(dir, p), uid, uid); err != nil {
			return err
		}
	}
	return nil
}

// check refuses what is too much.
func (o *others) check(path string) error {
	if o.many {
		return job.Invalid("policy.write", "%q of the image has more than %d files that do not belong to the owner of the directory: have them belong to one", path, othersMost)
	}
	return nil
}
