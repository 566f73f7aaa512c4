package sandbox

import (
	"github.com/assay-run/assay/pkg/runtime/cgroup"
	"github.com/assay-run/assay/pkg/runtime/mask"
)

// Place is what every kind of slot gives to its program.
type Place struct {
	Image   Image
	Layout  Layout
	Scratch *Scratch
	Group   cgroup.Group // of the programs; what starts them is in another
	mask    *mask.Mask   // of what programs write; nil for nothing
	Foreign bool         // its programs run on a kernel of their own
	Idle    int64        // bytes that this takes by itself
	Null    string       // the device that programs read which are given no input
}

// Image is what a program is told of the image that its sandbox is made of.
type Image struct {
	Digest   string   // of its manifest or index
	Env      []string // of its configuration
	Login    string   // name of the user that programs run as; empty: UserName
	Dir      string   // that commands start in; empty: it says none that they may enter
	Note     string   // what a command's job is not told otherwise; empty: nothing
	Packages []string // that an environment adds, as requirements with hashes
}

// What a kernel of its own takes besides its program: memory in bytes, and
// processes and threads of this host.
const (
	ForeignMemory = 96 << 20
	ForeignLeast  = 64 << 20 // to start
	ForeignPids   = 4096
)
