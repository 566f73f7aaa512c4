// Package prom evaluates PromQL in tests, with the engine of Prometheus, over series that a test writes or a process exports.
package prom

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
)

// DB is a set of series. Their first values have the time Start, and the others follow in steps.
type DB struct {
	step   time.Duration
	parser parser.Parser
	engine *promql.Engine
	series []storage.Series
}

// Start is the time of the first values.
var Start = time.Unix(1_800_000_000, 0)

// New returns a DB without series.
func New(step time.Duration) *DB {
	p := parser.NewParser(parser.Options{})
	return &DB{step: step, parser: p, engine: promql.NewEngine(promql.EngineOpts{
		MaxSamples: 1e6, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, EnableAtModifier: true, EnableNegativeOffset: true, Parser: p,
	})}
}

// Load adds a series for each line, in the notation of promtool: name{label="value"} 1 2 _ 0+1x10.
// It also accepts the text format of exporters, whose series have one value. Every series gets the
// labels of more.
func (d *DB) Load(t testing.TB, lines string, more map[string]string) {
	t.Helper()
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		found, values, err := d.parser.ParseSeriesDesc(line)
		if err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		b := labels.NewBuilder(found)
		for k, v := range more {
			b.Set(k, v)
		}
		s := series{labels: b.Labels(), chunk: chunkenc.NewXORChunk()}
		to, err := s.chunk.Appender()
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range values {
			if !v.Omitted {
				to.Append(0, Start.Add(time.Duration(i)*d.step).UnixMilli(), v.Value)
			}
		}
		d.series = append(d.series, s)
	}
}

// Query returns the result of an expression at a time after Start: a value for each set of labels.
// A scalar has no labels.
func (d *DB) Query(t testing.TB, expr string, after time.Duration) []promql.Sample {
	t.Helper()
	all := &storage.MockQueryable{MockQuerier: &storage.MockQuerier{SelectMockFunction: d.find}}
	q, err := d.engine.NewInstantQuery(context.WithoutCancel(t.Context()), all, nil, expr, Start.Add(after))
	if err != nil {
		t.Fatalf("%v in %s", err, expr)
	}
	defer q.Close()
	switch v := q.Exec(t.Context()); found := v.Value.(type) {
	case promql.Vector:
		return found
	case promql.Scalar:
		return []promql.Sample{{F: found.V}}
	default:
		t.Fatalf("%s: %v %v", expr, v.Value, v.Err)
		return nil
	}
}

// series is one series with its values.
type series struct {
	labels labels.Labels
	chunk  *chunkenc.XORChunk
}

// Labels implements storage.Series.
func (s series) Labels() labels.Labels { return s.labels }

// Iterator implements storage.Series.
func (s series) Iterator(it chunkenc.Iterator) chunkenc.Iterator { return s.chunk.Iterator(it) }

// found is the series of one selector.
type found struct {
	all []storage.Series
	at  int
}

func (d *DB) find(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	f := &found{at: -1}
	for _, s := range d.series {
		if matches(s.Labels(), matchers) {
			f.all = append(f.all, s)
		}
	}
	return f
}

func matches(l labels.Labels, matchers []*labels.Matcher) bool {
	for _, m := range matchers {
		if !m.Matches(l.Get(m.Name)) {
			return false
		}
	}
	return true
}

// Next implements storage.SeriesSet.
func (f *found) Next() bool { f.at++; return f.at < len(f.all) }

// At implements storage.SeriesSet.
func (f *found) At() storage.Series { return f.all[f.at] }

// Err implements storage.SeriesSet.
func (f *found) Err() error { return nil }

// Warnings implements storage.SeriesSet.
func (f *found) Warnings() annotations.Annotations { return nil }
