package sandbox

import (
	"github.com/assay-run/assay/pkg/runtime/cgroup"
	"github.com/assay-run/assay/pkg/runtime/mask"
)

// Place is the resources of a program in any kind of slot.
type Place struct {
	Image   Image
	Layout  Layout
	Scratch *Scratch
	Group   cgroup.Group // of the programs; their starter is in another group
	mask    *mask.Mask   // for programs' output; nil: none
	Foreign bool         // its programs run on a separate kernel
	Idle    int64        // memory in bytes of that kernel itself
	Null    string       // the input device of programs without input
}

// Image is the properties of the sandbox's image for programs.
type Image struct {
	Digest   string   // of its manifest or index
	Env      []string // from its configuration
	Login    string   // name of the programs' user; empty: UserName
	Dir      string   // working directory of commands; empty: none that they may enter
	Note     string   // note in the reports of commands; empty: none
	Packages []string // packages of an environment, as requirements with hashes
}

// Resources of a separate kernel besides its program's: memory in bytes, and host processes and
// threads.
const (
	ForeignMemory = 96 << 20
	ForeignLeast  = 64 << 20 // minimum to start
	ForeignPids   = 4096
)
