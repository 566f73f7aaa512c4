package ui

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/dispatcher/recent"
	"github.com/assay-run/assay/internal/dispatcher/ui/display"
	"github.com/assay-run/assay/pkg/job"
)

const (
	// pageWaits is how long a page waits for slow data before it is shown without.
	pageWaits = 20 * time.Millisecond
	// polledBytes limits the total size of cached responses for open pages. polledAge is how long a response is cached;
	// pages poll every two seconds. Slow responses are cached for ten times their duration, up to polledOldest.
	polledBytes  = 16 << 20
	polledAge    = time.Second
	polledThrift = 10
	polledOldest = 5 * time.Second
	// mapsBytes limits the total size of cached maps. mapOverAge is how long the map of a finished batch is cached.
	mapsBytes  = 16 << 20
	mapOverAge = time.Minute
	// mapsAtOnce is how many maps may be read at once. Reading one takes some megabytes.
	mapsAtOnce = 2
	// mapPartSize is the number of jobs in a part of a map. markEvery is the distance between remembered jobs.
	mapPartSize = 20_000
	markEvery   = 1000
)

// polled is the key of a poll. Visitors with the same rights share a response.
type polled struct {
	tenant string
	role   identity.Role
	held   identity.Held
	at     string
}

// pageCaches has the caches of the pages.
type pageCaches struct {
	polls     recent.Keyed[polled, []byte]
	now, over recent.Keyed[job.ID, *madeMap] // maps of batches
	hours     recent.Keyed[polled, *hourChart]
	scores    recent.Keyed[job.ID, *batchScores] // of unfinished batches
	scored    recent.Keyed[job.ID, *batchScores] // of finished ones
	reading   chan struct{}                      // has an element for each map being read
}

func newPageCaches() *pageCaches {
	return &pageCaches{
		polls: recent.Keyed[polled, []byte]{Most: polledBytes, Size: func(b []byte) int64 { return int64(len(b)) + 512 },
			Within: patience, Age: polledAge, Thrift: polledThrift, Oldest: polledOldest},
		now:  recent.Keyed[job.ID, *madeMap]{Most: mapsBytes, Size: (*madeMap).size, Age: polledAge, Thrift: polledThrift},
		over: recent.Keyed[job.ID, *madeMap]{Most: mapsBytes, Size: (*madeMap).size, Age: mapOverAge},
		hours: recent.Keyed[polled, *hourChart]{Most: hoursBytes, Size: func(*hourChart) int64 { return hourBytes },
			Within: patience, Age: hourAge, Thrift: hourThrift, Oldest: hourOldest},
		scores: recent.Keyed[job.ID, *batchScores]{Most: scoresBytes, Size: func(*batchScores) int64 { return scoreBytes },
			Within: patience, Age: scoreAge, Thrift: scoreThrift, Oldest: scoreOldest},
		scored:  recent.Keyed[job.ID, *batchScores]{Most: scoresBytes, Size: func(*batchScores) int64 { return scoreBytes }, Within: patience, Age: mapOverAge},
		reading: make(chan struct{}, mapsAtOnce),
	}
}

// forget empties the caches, so that a visitor sees the effect of an action.
func (k *pageCaches) forget() {
	k.polls.Forget()
	k.now.Forget()
	k.over.Forget()
	k.hours.Forget()
	k.scores.Forget()
	k.scored.Forget()
}

// get reads from the API. Polls by the script share a cached response with all open pages.
func (v *visit) get(path string, query url.Values, out any) error {
	rq := apiCall{Method: http.MethodGet, Path: path, Query: query}
	if !v.part() {
		return v.api().JSON(v.r.Context(), rq, out)
	}
	key := polled{v.who.Tenant, v.who.Role, v.who.Held, path + "?" + query.Encode()}
	raw, err := v.s.keeps.polls.Get(v.r.Context(), key, func(ctx context.Context) ([]byte, error) {
		got, err := v.api().Do(ctx, rq)
		if err != nil {
			return nil, err
		}
		return got.Body.Bytes(), nil
	})
	if errors.Is(err, api.ErrUnauthorized) { // the rejected key may belong to another visitor
		return v.api().JSON(v.r.Context(), rq, out)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, out)
}

// soon reads slow data. If the data is late, the page is shown without it and requests it as a part. Without scripts,
// visitors can request the whole page.
func (v *visit) soon(path string, query url.Values, out any) (there bool, err error) {
	if v.part() || v.r.URL.Query().Has(wholeName) {
		err = v.get(path, query, out)
		return err == nil, err
	}
	ctx, cancel := v.patient()
	defer cancel()
	err = v.api().JSON(ctx, apiCall{Method: http.MethodGet, Path: path, Query: query}, out)
	if err != nil && ctx.Err() != nil && v.r.Context().Err() == nil {
		return false, nil
	}
	return err == nil, err
}

// patient returns a context for slow data. Unless a part or the whole page is requested, it ends after the wait of a page.
func (v *visit) patient() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(v.r.Context())
	if v.part() || v.r.URL.Query().Has(wholeName) {
		return ctx, cancel
	}
	t := time.AfterFunc(v.s.Waits, cancel)
	return ctx, func() { t.Stop(); cancel() }
}

const wholeName = "whole"

// whole returns the address of this page with all slow data.
func (v *visit) whole() string {
	q := v.r.URL.Query()
	q.Set(wholeName, "true")
	return v.r.URL.Path + "?" + q.Encode()
}

// madeMap is an encoded map. marks has the id before each markEvery-th job.
type madeMap struct {
	data  []byte
	marks []job.ID
	jobs  int
}

func (m *madeMap) size() int64 { return int64(len(m.data) + 64*len(m.marks)) }

// mapOf returns the map of a batch if the visitor may read the batch.
func (v *visit) mapOf(id job.ID) (*madeMap, error) {
	var b job.Batch
	if err := v.get("/v1/batches/"+string(id), nil, &b); err != nil {
		return nil, err
	}
	keep := &v.s.keeps.now
	if b.Done() {
		keep = &v.s.keeps.over
	}
	return keep.Get(v.r.Context(), id, func(ctx context.Context) (*madeMap, error) {
		select {
		case v.s.keeps.reading <- struct{}{}:
			defer func() { <-v.s.keeps.reading }()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		return readMap(ctx, v.api(), id)
	})
}

// mapMaking assembles a map from its parts.
type mapMaking struct {
	kinds  []mapKind
	number map[string]byte
	cells  []byte
	marks  []job.ID
}

// readMap reads the map of a batch.
func readMap(ctx context.Context, c apiCaller, id job.ID) (*madeMap, error) {
	m := mapMaking{kinds: []mapKind{}, number: map[string]byte{}, marks: []job.ID{""}}
	for after, more := job.ID(""), true; more && len(m.cells) < mapMost; more = after != "" {
		part, err := readMapPart(ctx, c, id, after, min(mapPartSize, mapMost-len(m.cells)))
		if err != nil {
			return nil, err
		}
		m.add(part)
		after = part.Next
	}
	raw, err := json.Marshal(mapData{Kinds: m.kinds, Cells: string(m.cells)})
	return &madeMap{data: append(raw, '\n'), marks: m.marks, jobs: len(m.cells)}, err
}

func (m *mapMaking) add(part mapPart) {
	for i, end := range part.Ends {
		n, known := m.number[end]
		if !known {
			n = '0' + byte(len(m.kinds))
			m.number[end] = n
			m.kinds = append(m.kinds, mapKind{display.Words(end), classOf(end)})
		}
		if m.cells = append(m.cells, n); len(m.cells)%markEvery == 0 {
			m.marks = append(m.marks, part.IDs[i])
		}
	}
}

// readMapPart reads up to n jobs of a map.
func readMapPart(ctx context.Context, c apiCaller, id, after job.ID, n int) (part mapPart, err error) {
	q := url.Values{"limit": {strconv.Itoa(n)}}
	if after != "" {
		q.Set("after", string(after))
	}
	err = c.JSON(ctx, apiCall{Method: http.MethodGet, Path: "/v1/batches/" + string(id) + "/map", Query: q}, &part)
	return part, err
}

// jobAt returns the job at a position of a map.
func (v *visit) jobAt(id job.ID, m *madeMap, n int) (found job.ID, err error) {
	after, left := m.marks[n/markEvery], n%markEvery+1
	for {
		part, err := readMapPart(v.r.Context(), v.api(), id, after, left)
		if err != nil {
			return "", err
		}
		if left -= len(part.IDs); left == 0 {
			return part.IDs[len(part.IDs)-1], nil
		}
		if after = part.Next; after == "" {
			return "", errNoCell
		}
	}
}
