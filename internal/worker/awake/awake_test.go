package awake

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestStay reads the requests to the kernel from a pipe in its place.
func TestStay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "device")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	kernel, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer kernel.Close()
	hears := func(want uint32) {
		t.Helper()
		var b [4]byte
		_ = kernel.SetReadDeadline(time.Now().Add(30 * time.Second))
		if _, err := io.ReadFull(kernel, b[:]); err != nil {
			t.Fatal(err)
		}
		if got := binary.NativeEndian.Uint32(b[:]); got != want {
			t.Fatalf("the kernel hears %d, want %d", got, want)
		}
	}
	silent := func() {
		t.Helper()
		_ = kernel.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if n, err := kernel.Read(make([]byte, 4)); err == nil {
			t.Fatalf("the kernel hears %d bytes more", n)
		}
	}
	const linger = 400 * time.Millisecond
	k, err := Open(path, linger)
	if err != nil {
		t.Fatal(err)
	}
	hears(however)
	silent() // no client waits

	began := time.Now()
	k.Stay()
	hears(never)
	for range 5 { // they stay awake without another request
		k.Stay()
		silent()
	}
	k.Stay()
	hears(however)
	if d := time.Since(began); d < 250*time.Millisecond+linger {
		t.Errorf("they may sleep after %v: not before %v after the last", d, linger)
	}
	k.Stay() // and again
	hears(never)
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	k.Stay()
	silent()
	if err := k.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}

// TestKernel checks that the real kernel honours the requests.
func TestKernel(t *testing.T) {
	if _, err := Open(Device, time.Second); errors.Is(err, fs.ErrNotExist) {
		t.Logf("%v: on this machine there is nothing to ask", err)
		return
	}
	now := func() uint32 {
		b, err := os.ReadFile(Device)
		if err != nil || len(b) < 4 {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
		return binary.NativeEndian.Uint32(b)
	}
	k, err := Open(Device, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	k.Stay()
	if got := now(); got != never {
		t.Errorf("processors may be late by %d us, want none", got)
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestNone(t *testing.T) {
	var k *Keeper
	k.Stay()
	if err := k.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none"), time.Second); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a device: %v", err)
	}
}
