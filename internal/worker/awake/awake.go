// Package awake keeps the processors of this host from sleeping while a client waits for an answer.
//
// An idle processor halts and takes time to wake up: some microseconds on metal, and a tenth of a
// millisecond or more on a virtual machine, where the hypervisor must wake it. A session request
// passes through ten steps between processes, and every step wakes a processor.
//
// The kernel lets a program set a maximum wake-up latency (/dev/cpu_dma_latency, PM quality of
// service). At 0, an idle processor polls for work instead of halting. That costs busy processors
// only power and, on a shared machine, the time of other machines. So it is used for moments only.
package awake

import (
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Device is where a program sets the maximum wake-up latency.
const Device = "/dev/cpu_dma_latency"

// Values for Device, in microseconds.
const (
	never   uint32 = 0             // no latency: no processor sleeps
	however uint32 = 2_000_000_000 // PM_QOS_CPU_LATENCY_DEFAULT_VALUE of the kernel: no limit
)

// Keeper keeps processors awake. A nil Keeper lets them sleep. The kernel drops its request when
// the process ends, however it ends.
type Keeper struct {
	linger time.Duration

	mu    sync.Mutex
	fd    int // -1: closed
	until time.Time
	held  bool
}

// Open returns a Keeper that writes to device. It keeps processors awake for linger after each
// Stay. The error is fs.ErrNotExist if there is no device.
func Open(device string, linger time.Duration) (*Keeper, error) {
	fd, err := unix.Open(device, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", device, err)
	}
	k := &Keeper{linger: linger, fd: fd}
	if err := k.say(however); err != nil { // opening the device already requests 0
		_ = unix.Close(fd)
		return nil, fmt.Errorf("write to %s: %w", device, err)
	}
	return k, nil
}

// Stay keeps processors awake for a moment, because a client waits for the next step.
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

// expire lets processors sleep, unless Stay was called in the meantime.
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

// Close lets processors sleep permanently.
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
