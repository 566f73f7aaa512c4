package ui

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/ui/display"
)

// chart is a bar chart that chart.js draws. Its bins are equal intervals of time, or have edges.
type chart struct {
	ID     string        `json:"-"`               // of the element
	Text   string        `json:"-"`               // describes the chart, and replaces it without scripts
	Start  int64         `json:"start,omitempty"` // begin of the first bin, in Unix seconds
	Step   int64         `json:"step,omitempty"`  // seconds of a bin
	Edges  []string      `json:"edges,omitempty"` // one more than bins
	X      string        `json:"x"`               // labels of the axes, with units
	Y      string        `json:"y"`
	All    string        `json:"all"`    // names all bins in the legend
	Series []chartSeries `json:"series"` // stacked, the lowest first
}

// chartSeries has a value for each bin.
type chartSeries struct {
	Class  string    `json:"class"` // colour class
	Label  string    `json:"label"`
	All    string    `json:"all"` // figure of all bins
	Values []float64 `json:"values"`
}

// JSON returns the data for the script.
func (c *chart) JSON() (string, error) {
	raw, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("chart %s: %w", c.ID, err)
	}
	return string(raw), nil
}

// binned returns a histogram of jobs, or nil without bins. x is the label of its abscissa.
func binned(id, x string, counts []int64, edges []string) *chart {
	if len(counts) == 0 {
		return nil
	}
	sum, values, texts := int64(0), make([]float64, len(counts)), make([]string, len(counts))
	for i, n := range counts {
		sum += n
		values[i] = float64(n)
		texts[i] = display.Count(n) + " up to " + edges[i+1]
	}
	return &chart{ID: id, Text: "Jobs by " + x + ": " + strings.Join(texts, ", "), Edges: edges, X: x, Y: "jobs", All: "all",
		Series: []chartSeries{{Class: "run", Label: "jobs", All: display.Count(sum), Values: values}}}
}

// timed returns a chart of the last hour.
func (h *hourChart) timed(id, text, y string, series ...chartSeries) *chart {
	return &chart{ID: id, Text: text, Start: h.From.Unix(), Step: int64(hourBin / time.Second), X: "local time", Y: y, All: "last hour", Series: series}
}

// RunningChart returns the chart of running jobs, or nil if none ran.
func (h *hourChart) RunningChart() *chart {
	s := chartSeries{Class: "run", Label: "running"}
	most := 0.0
	for _, n := range h.Running {
		most = max(most, n)
		s.Values = append(s.Values, hundredths(n))
	}
	if most == 0 {
		return nil
	}
	s.All = "at most " + strconv.FormatFloat(most, 'f', 1, 64)
	return h.timed("chart-running", "Running jobs in the last hour: "+s.All+", as means of 2 minutes", "jobs, mean of 2 min", s)
}

// EndedChart returns the chart of ended jobs by outcome, or nil if none ended.
func (h *hourChart) EndedChart() *chart {
	var series []chartSeries
	var texts []string
	var all int64
	for _, o := range []struct {
		class, label string
		of           func(hourCount) float64
	}{
		{"run", "succeeded", func(c hourCount) float64 { return c.Good }},
		{"stop", "failed", func(c hourCount) float64 { return c.Failed }},
		{"infra", "without a verdict", func(c hourCount) float64 { return c.Other }},
		{"bad", "lost", func(c hourCount) float64 { return c.Lost }},
	} {
		n := rounded(o.of(h.total()))
		s := chartSeries{Class: o.class, Label: o.label, All: display.Count(n)}
		for _, c := range h.Bins {
			s.Values = append(s.Values, hundredths(o.of(c)))
		}
		all += n
		series, texts = append(series, s), append(texts, s.All+" "+s.Label)
	}
	if all == 0 {
		return nil
	}
	return h.timed("chart-ended", "Jobs that ended in the last hour: "+strings.Join(texts, ", "), "jobs in 2 min", series...)
}

// hundredths rounds a value of a chart.
func hundredths(n float64) float64 { return math.Round(n*100) / 100 }
