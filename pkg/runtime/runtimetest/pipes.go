package runtimetest

import (
	"bytes"
	"crypto/sha256"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

// Pipes tests commands with replaced or observed streams.
func Pipes(t *testing.T, cfg ProgramsConfig) {
	s := newSuite(t, cfg.Config)
	t.Run("all of the output", s.allOfTheOutput)
	t.Run("two programs that talk", s.twoThatTalk)
	t.Run("input that nobody reads", s.inputThatNobodyReads)
	t.Run("streams by name", s.pipesByName)
	clean(t, cfg.Leftovers)
}

// pipePair returns a pipe with blocking ends, as programs expect.
func pipePair(t *testing.T) (r, w *os.File) {
	t.Helper()
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	r, w = os.NewFile(uintptr(fds[0]), "pipe"), os.NewFile(uintptr(fds[1]), "pipe")
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return r, w
}

func (s *suite) allOfTheOutput(t *testing.T) {
	slot := s.acquire(t, "command")
	defer slot.Close()
	var got bytes.Buffer
	a := s.attempt(t, sh(`head -c 5000000 /dev/zero | tr '\000' '\377'; printf '\000end'`), nil)
	a.Output = &got
	rep, err := slot.Run(t.Context(), a)
	if err != nil || rep.Outcome != job.Succeeded || !rep.Stdout.Truncated {
		t.Fatalf("%+v, %v", rep, err)
	}
	want := append(bytes.Repeat([]byte{0xff}, 5_000_000), "\x00end"...)
	if sha256.Sum256(got.Bytes()) != sha256.Sum256(want) {
		t.Errorf("%d bytes are not those that it wrote", got.Len())
	}
}

// Each ends after the other, because no end of a pipe stays open here.
func (s *suite) twoThatTalk(t *testing.T) {
	there, here := s.acquire(t, "command"), s.acquire(t, "command")
	defer there.Close()
	defer here.Close()
	a, b := s.attempt(t, sh("echo ping; read answer; cat >/dev/null; test \"$answer\" = pong"), nil), s.attempt(t, sh("read question; test \"$question\" = ping && echo pong"), nil)
	b.Stdin, a.Stdout = pipePair(t)
	a.Stdin, b.Stdout = pipePair(t)
	var both sync.WaitGroup
	for slot, attempt := range map[runtime.Slot]runtime.Attempt{there: a, here: b} {
		both.Go(func() {
			begun := 0
			attempt.Begun = func() { begun++ }
			rep, err := slot.Run(t.Context(), attempt)
			if begun != 1 {
				t.Errorf("it was told %d times that the program has begun", begun)
			}
			if err != nil || rep.Outcome != job.Succeeded || rep.Stdout.Bytes != 0 {
				t.Errorf("%+v, %v", rep, err)
			}
		})
	}
	both.Wait()
}

func (s *suite) inputThatNobodyReads(t *testing.T) {
	slot := s.acquire(t, "command")
	defer slot.Close()
	a := s.attempt(t, sh("exit 3"), nil)
	r, w := pipePair(t)
	a.Stdin = r
	wrote := make(chan error, 1)
	go func() {
		_, err := io.Copy(w, strings.NewReader(strings.Repeat("x", 4<<20)))
		wrote <- err
	}()
	rep, err := slot.Run(t.Context(), a)
	if err != nil || rep.Outcome != job.Failed || *rep.ExitCode != 3 {
		t.Errorf("%+v, %v", rep, err)
	}
	select {
	case err := <-wrote:
		if err == nil {
			t.Error("4 MB fit into a pipe")
		}
	case <-time.After(10 * time.Second):
		t.Error("somebody still holds the end of the pipe that was the program's")
	}
}

func (s *suite) pipesByName(t *testing.T) {
	slot := s.acquire(t, "command")
	defer slot.Close()
	a := s.attempt(t, sh("cat /dev/stdin >/dev/stdout"), nil)
	r, w := pipePair(t)
	a.Stdin = r
	out, theirs := pipePair(t)
	a.Stdout = theirs
	if _, err := w.WriteString("some\ninput"); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	rep, err := slot.Run(t.Context(), a)
	if err != nil || rep.Outcome != job.Succeeded {
		t.Fatalf("%+v, %v", rep, err)
	}
	if got, err := io.ReadAll(out); string(got) != "some\ninput" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
