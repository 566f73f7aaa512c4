//go:build !amd64

package tracee

import "errors"

// Supported reports that this machine's registers are not supported.
const Supported = false

var injected []byte

const (
	tableEnd  = 0
	dropEnd   = 0
	callEnd   = 0
	capHeader = 0
	capNone   = 0
)

type registers struct{}

func (*registers) read(int) error                                  { return errors.ErrUnsupported }
func (*registers) write(int) error                                 { return errors.ErrUnsupported }
func (*registers) at() uintptr                                     { return 0 }
func (r *registers) calling(_, _ uintptr, _ ...uintptr) *registers { return r }
func (r *registers) dropping(_, _ uintptr) *registers              { return r }
func (r *registers) callingAll(_, _ uintptr, _ int) *registers     { return r }
func (*registers) left() int                                       { return 0 }
func (*registers) result() error                                   { return errors.ErrUnsupported }
func (*registers) value() uintptr                                  { return 0 }
func (*registers) spare() uintptr                                  { return 0 }
func (*registers) forking() (uintptr, bool)                        { return 0, false }
