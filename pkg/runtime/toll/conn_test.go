package toll

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pipe returns both ends of a pipe; the end for reading can be polled.
func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return r, w
}

// TestReader holds that a Reader returns what os.File does, and charges reading by its cost.
func TestReader(t *testing.T) {
	t.Parallel()
	r, w := pipe(t)
	var m Meter
	reader, err := NewReader(r, &m)
	if err != nil {
		t.Fatal(err)
	}
	text := bytes.Repeat([]byte("text"), 1<<20)
	go func() {
		_, _ = w.Write(text)
		_ = w.Close()
	}()
	got, err := io.ReadAll(reader)
	if err != nil || !bytes.Equal(got, text) {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
	if n, err := reader.Read(nil); n != 0 || err != nil {
		t.Errorf("nothing: %d, %v", n, err)
	}
	if m.Spent() <= 0 || m.Spent() > time.Second {
		t.Errorf("4 MiB cost %v", m.Spent())
	}
	if !m.Affords(time.Now()) || m.Delay(time.Now()) > 0 {
		t.Error("reading uses up the ration")
	}
	_ = r.Close()
	if _, err := reader.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("after Close: %v", err)
	}
}

// TestReaderWaits holds that a Reader waits for bytes and keeps a deadline, and that each wait is charged.
func TestReaderWaits(t *testing.T) {
	t.Parallel()
	r, w := pipe(t)
	var m Meter
	reader, err := NewReader(r, &m)
	if err != nil {
		t.Fatal(err)
	}
	const messages = 1000
	done := make(chan error, 1)
	go func() {
		buf := make([]byte, 1)
		for range messages {
			if _, err := reader.Read(buf); err != nil {
				done <- err
				return
			}
		}
		_, err := reader.Read(buf)
		done <- err
	}()
	for range messages {
		for { // until the last one was read
			n, err := waiting(r)
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				break
			}
			time.Sleep(time.Microsecond)
		}
		if _, err := w.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	_ = w.Close()
	if err := <-done; err != io.EOF {
		t.Errorf("the end: %v", err)
	}
	if m.Spent() < messages*time.Microsecond {
		t.Errorf("%d messages cost %v", messages, m.Spent())
	}
	r, _ = pipe(t)
	if reader, err = NewReader(r, &m); err != nil {
		t.Fatal(err)
	}
	if err := r.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the deadline: %v", err)
	}
}

// TestConn holds that a paid connection carries what another one does, in both directions.
func TestConn(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, _ = io.Copy(c, c)
			_ = c.Close()
		}
	}()
	raw, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	var m Meter
	c := Conn(raw, &m, true)
	if Of(c) != &m || Of(raw) != nil {
		t.Error("a connection does not know its meter")
	}
	text := bytes.Repeat([]byte("text"), 1<<20)
	go func() {
		_, _ = c.Write(text)
		_ = c.(interface{ CloseWrite() error }).CloseWrite()
	}()
	got, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(got, text) {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
	if m.Spent() <= 0 || m.Spent() > time.Second {
		t.Errorf("4 MiB there and back cost %v", m.Spent())
	}
	one, two := net.Pipe()
	defer two.Close()
	if Conn(one, &m, true) != one || Conn(raw, nil, true) != raw {
		t.Error("a connection is wrapped that cannot be charged")
	}
}

// TestRequestsHaveARation holds that requests wait for a ration of their own, which leaves looks theirs.
func TestRequestsHaveARation(t *testing.T) {
	t.Parallel()
	var m Meter
	now := time.Now()
	const cost = 100 * time.Microsecond
	for end := now.Add(time.Minute); now.Before(end); {
		if d := m.Delay(now); d > 0 {
			now = now.Add(d)
			continue
		}
		m.add(&m.requests, now, cost)
		if !m.Affords(now) {
			t.Fatal("requests have used up the ration of looks")
		}
	}
	if spent := m.Spent(); spent < 1100*time.Millisecond || spent > 1300*time.Millisecond {
		t.Errorf("requests cost %v in a minute, want 2 %% of a core", spent)
	}
	m.add(&m.looks, now, time.Minute)
	m.Charge(time.Hour)
	if m.Delay(now.Add(time.Second)) > 0 {
		t.Error("other work delays requests")
	}
	var none *Meter
	none.Charge(1)
	none.Request(1)
	if none.Delay(now) > 0 {
		t.Error("a nil meter has a ration")
	}
}

// waiting returns the number of bytes in a pipe. File.Fd would make the pipe unsuitable for polling.
func waiting(r *os.File) (n int, err error) {
	raw, err := r.SyscallConn()
	if err != nil {
		return 0, err
	}
	failed := raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	return n, errors.Join(failed, err)
}
