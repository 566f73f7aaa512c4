// Package awake keeps the processors of this host from sleeping while somebody
// waits for an answer.
//
// A processor without work halts, and takes time to wake up: some microseconds on
// metal, a tenth of a millisecond and more on a virtual machine, whose hypervisor
// has to be asked. What a client of a session waits for goes through ten steps from
// process to process, and every one wakes a processor. The kernel lets a program say
// how late a processor may be (/dev/cpu_dma_latency, PM quality of service); told 0,
// one without work polls for it instead. It takes nothing from those that have work,
// but power, and on a shared machine another's turn. So it is for moments only.
package awake

import (
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Device is where a program tells the kernel how late processors may be.
const Device = "/dev/cpu_dma_latency"

// What is said there, in microseconds.
const (
	never   uint32 = 0             // not late at all: nothing sleeps
	however uint32 = 2_000_000_000 // the kernel's PM_QOS_CPU_LATENCY_DEFAULT_VALUE: no wish
)

// Keeper keeps processors awake. A nil one lets them sleep. What it asked of the
// kernel ends with the process, whatever becomes of it.
type Keeper struct {
	linger time.Duration

	mu    sync.Mutex
	fd    int // -1: closed
	until time.Time
	held  bool
}

// Open returns a Keeper that keeps processors awake for linger after each Stay, by
// what it writes to device. The error is fs.ErrNotExist where there is none.
func Open(device string, linger time.Duration) (*Keeper, error) {
	fd, err := unix.Open(device, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", device, err)
	}
	k := &Keeper{linger: linger, fd: fd}
	if err := k.say(however); err != nil { // to open it is to ask for 0 already
		_ = unix.Close(fd)
		return nil, fmt.Errorf("write to %s: %w", device, err)
	}
	return k, nil
}

// Stay has processors stay awake for a moment: somebody waits for what comes next.
func (k *Keeper) Stay() {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.until = time.Now().Add(k.linger)
	if k.held || k.fd < 0 || k.say(never) != nil {
		return
	}
	k.held = true
	time.AfterFunc(k.linger, k.expire)
}

// expire lets processors sleep, unless somebody has come to wait meanwhile.
func (k *Keeper) expire() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if left := time.Until(k.until); left > 0 && k.fd >= 0 {
		time.AfterFunc(left, k.expire)
		return
	}
	k.held = false
	if k.fd >= 0 {
		_ = k.say(however)
	}
}

// Close lets processors sleep, for good.
func (k *Keeper) Close() error {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fd < 0 {
		return nil
	}
	fd := k.fd
	k.fd = -1
	return unix.Close(fd)
}

func (k *Keeper) say(latency uint32) error {
	_, err := unix.Write(k.fd, binary.NativeEndian.AppendUint32(nil, latency))
	return err
}
