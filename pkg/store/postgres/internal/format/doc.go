// Package format converts jobs and results to the columns that one statement fills and another reads: a result in two
// parts, the caps of a job as a lane, the outcomes as counters.
//
// It guards that reading returns the written values and parses nothing. It rejects anything but a JSON object with
// job.ErrInvalid before it is stored; nothing fails after that.
package format
