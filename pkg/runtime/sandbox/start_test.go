package sandbox

import (
	"errors"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/runtime"
)

// TestStreamsEnd checks that the last output of a program can be read and then ends, even if another process
// still has the other end.
func TestStreamsEnd(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	var other *os.File
	p, err := Start(func(s *Stream) (*runtime.Report, error) {
		fd, err := unix.Dup(int(s.theirs.Fd()))
		if err != nil {
			return nil, err
		}
		other = os.NewFile(uintptr(fd), "other")
		s.begin()
		<-over
		_, err = other.WriteString("last")
		return &runtime.Report{}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	said := make(chan string)
	go func() {
		all, _ := io.ReadAll(p.Conn())
		said <- string(all)
	}()
	close(over)
	if all := <-said; all != "last" {
		t.Errorf("it wrote %q", all)
	}
	if _, err := p.Conn().Write([]byte("x")); err == nil {
		t.Error("what has ended was written to")
	}
	if _, err := p.Wait(); err != nil {
		t.Error(err)
	}
}

func TestNotBegun(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	if p, err := Start(func(*Stream) (*runtime.Report, error) { return nil, broken }); p != nil || !errors.Is(err, broken) {
		t.Errorf("%v, %v", p, err)
	}
	want := &runtime.Report{}
	p, err := Start(func(*Stream) (*runtime.Report, error) { return want, nil })
	if err != nil || p.Conn() != nil {
		t.Fatalf("%v, %v", p, err)
	}
	p.Stop()
	if rep, err := p.Wait(); rep != want || err != nil {
		t.Errorf("%v, %v", rep, err)
	}
}

// TestStop checks that a program is stopped at once, except after it closed its end: then it is about to end
// by itself.
func TestStop(t *testing.T) {
	t.Parallel()
	for _, hungUp := range []bool{false, true} {
		over := make(chan struct{})
		var stream *Stream
		p, err := Start(func(s *Stream) (*runtime.Report, error) {
			fd, err := unix.Dup(int(s.theirs.Fd()))
			if err != nil {
				return nil, err
			}
			stream = s
			if hungUp {
				_ = unix.Close(fd)
			} else {
				defer unix.Close(fd)
			}
			s.begin()
			<-over
			return &runtime.Report{}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		p.Stop()
		p.Stop()
		select {
		case <-stream.stop():
			if hungUp {
				t.Error("it had no time to end by itself")
			}
		default:
			if !hungUp {
				t.Error("it is not stopped")
			}
		}
		<-stream.stop()
		close(over)
		if _, err := p.Wait(); err != nil {
			t.Error(err)
		}
	}
}
