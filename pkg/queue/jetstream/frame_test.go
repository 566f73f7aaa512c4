package jetstream

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/semaphore"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
)

// claiming is the first chunk of a frame that claims a size.
func claiming(size, first string) *nats.Msg {
	return &nats.Msg{Data: []byte(first), Header: nats.Header{sizeHeader: {size}, restHeader: {"rest.w.x"}}}
}

// chunks answers for the rest of body, n bytes at a time.
func chunks(t *testing.T, body []byte, n int) requester {
	t.Helper()
	return func(_ context.Context, m *nats.Msg) (*nats.Msg, error) {
		at, err := strconv.Atoi(string(m.Data))
		if err != nil || m.Subject != "rest.w.x" {
			t.Errorf("asked %q at %q", m.Data, m.Subject)
		}
		return &nats.Msg{Data: body[at:min(at+n, len(body))]}, nil
	}
}

func TestFrameIsReadWhole(t *testing.T) {
	t.Parallel()
	body := bytes.Repeat([]byte("0123456789abcdef"), 300<<10) // 4.7 MiB: grows more than once
	for _, n := range []int{64 << 10, 1 << 20, len(body)} {
		got, err := readFrame(t.Context(), chunks(t, body, n), claiming(strconv.Itoa(len(body)), string(body[:n])), "rest.w", len(body))
		if err != nil || !bytes.Equal(got, body) {
			t.Errorf("chunks of %d: %d bytes, %v, want %d", n, len(got), err, len(body))
		}
		if cap(got) > 2*len(body) {
			t.Errorf("chunks of %d: takes %d bytes for %d", n, cap(got), len(body))
		}
	}
	if got, err := readFrame(t.Context(), nil, &nats.Msg{Data: body}, "rest.w", 1); err != nil || len(got) != len(body) {
		t.Errorf("a message without a rest: %d bytes, %v", len(got), err)
	}
}

// TestFrameThatClaimsTooMuchIsRefused checks that a frame above the limit causes no request and no
// allocation.
func TestFrameThatClaimsTooMuchIsRefused(t *testing.T) {
	t.Parallel()
	never := func(context.Context, *nats.Msg) (*nats.Msg, error) {
		t.Error("the rest was asked for")
		return nil, errors.New("no")
	}
	for size, want := range map[string]error{
		strconv.Itoa(2 << 30): job.ErrTooLarge, strconv.Itoa(control.MaxRequest + 1): job.ErrTooLarge, "99999999999999999999": job.ErrTooLarge,
		"-1": job.ErrInvalid, "3": job.ErrInvalid, "": job.ErrInvalid, "1e3": job.ErrInvalid,
	} {
		_, err := readFrame(t.Context(), never, claiming(size, "first chunk"), "rest.w", control.MaxRequest)
		if !errors.Is(err, want) {
			t.Errorf("%q bytes: %v, want %v", size, err, want)
		}
		if errors.Is(want, job.ErrTooLarge) && !strings.Contains(err.Error(), strconv.Itoa(control.MaxRequest)) {
			t.Errorf("%q does not name the limit", err)
		}
	}
	if _, err := readFrame(t.Context(), never, claiming("100", "x"), "elsewhere", control.MaxRequest); !errors.Is(err, job.ErrInvalid) {
		t.Errorf("the rest at another's subject: %v", err)
	}
}

// A frame that claims as much as is allowed, and then does not come, has cost what came.
func TestFrameIsBelievedAsItComes(t *testing.T) {
	sent := errors.New("that was all")
	first := strings.Repeat("x", 4<<10)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 20 {
		_, err := readFrame(t.Context(), func(context.Context, *nats.Msg) (*nats.Msg, error) { return nil, sent },
			claiming(strconv.Itoa(control.MaxRequest), first), "rest.w", control.MaxRequest)
		if !errors.Is(err, sent) {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 20*(firstRoom+64<<10) {
		t.Errorf("20 frames of which 4 KiB came took %d MiB", got>>20)
	}
}

func TestFrameOfImpossibleChunks(t *testing.T) {
	t.Parallel()
	for _, data := range []string{"", strings.Repeat("x", 100)} {
		_, err := readFrame(t.Context(), func(context.Context, *nats.Msg) (*nats.Msg, error) { return &nats.Msg{Data: []byte(data)}, nil },
			claiming("50", "x"), "rest.w", control.MaxRequest)
		if err == nil {
			t.Errorf("a chunk of %d bytes where 49 were left was taken", len(data))
		}
	}
}

// TestFramesShareTheirRoom checks that the memory for incoming frames is bounded over all requests, not for
// each.
func TestFramesShareTheirRoom(t *testing.T) {
	t.Parallel()
	q := &Queue{frames: semaphore.NewWeighted(framesRoom), messages: semaphore.NewWeighted(messagesRoom)}
	if !q.frames.TryAcquire(framesRoom - 10) {
		t.Fatal("there is no room at first")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	m := &nats.Msg{Data: []byte("x"), Header: nats.Header{sizeHeader: {"11"}, restHeader: {inboxOf("w") + ".x"}}}
	if _, _, err := q.take(ctx, m, "w"); !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("without room: %v, want unavailable: it is sent again", err)
	}
	if body, done, err := q.take(t.Context(), &nats.Msg{Data: []byte("small")}, "w"); err != nil || string(body) != "small" {
		t.Errorf("what is small needs no room: %q, %v", body, err)
	} else {
		done()
	}
	whole := &nats.Msg{Data: make([]byte, smallRequest+1)}
	_, done, err := q.take(t.Context(), whole, "w")
	if err != nil {
		t.Fatalf("a message waits for frames: %v", err)
	}
	if q.messages.TryAcquire(messagesRoom) {
		t.Error("it takes no room")
	}
	done()
	if !q.messages.TryAcquire(messagesRoom) {
		t.Error("its room is not given back")
	}
	if _, _, err := q.take(t.Context(), whole, "w"); !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("a message without room: %v, want unavailable", err)
	}
}

func TestPatienceIsTheSenders(t *testing.T) {
	t.Parallel()
	q := &Queue{cfg: Config{Timeout: 10 * time.Second}}
	for said, want := range map[string]time.Duration{
		"": 10 * time.Second, "x": 10 * time.Second, "-5": 10 * time.Second, "3000": 10 * time.Second,
		"45000": 45 * time.Second, "2000000000": maxPatience, "99999999999999": 10 * time.Second,
	} {
		if got := q.patience(&nats.Msg{Header: nats.Header{patienceHeader: {said}}}); got != want {
			t.Errorf("%q: %v, want %v", said, got, want)
		}
	}
}
