package filter

import (
	_ "embed"

	"golang.org/x/sys/unix"
)

const nativeArch = unix.AUDIT_ARCH_X86_64

//go:generate sh tables.sh
//go:embed syscalls_amd64.txt
var table string
