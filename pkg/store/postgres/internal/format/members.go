package format

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/assay-run/assay/pkg/job"
)

// A result is stored in two parts: the members that identify the job, and the worker's own members. The identity is cut
// out of the spec once, at submit; Body removes the same members from the worker's result. Reading only concatenates:
// no result is ever parsed again.

// identityMembers are the members of job.Result for which the store, not the worker, has the authority.
var identityMembers = map[string]bool{
	"id": true, "batch_id": true, "name": true, "labels": true, "state": true,
	"outcome": true, "attempts": true, "trace_id": true,
}

// Identity returns the JSON members that the result will repeat from the spec
// and the trace context, each followed by a comma.
func Identity(spec []byte, traceParent string) (string, error) {
	var out strings.Builder
	err := eachMember(spec, func(key string, member, value []byte) {
		if key != "name" && key != "labels" {
			return
		}
		switch string(value) {
		case "null", `""`, "{}":
		default:
			out.Write(member)
			out.WriteByte(',')
		}
	})
	if id := TraceID(traceParent); id != "" {
		fmt.Fprintf(&out, `"trace_id":%q,`, id)
	}
	return out.String(), err
}

// TraceID cuts the trace id out of a W3C traceparent; "" if it is not one.
func TraceID(traceParent string) string {
	parts := strings.Split(traceParent, "-")
	if len(parts) != 4 || len(parts[1]) != 32 || strings.Trim(parts[1], "0123456789abcdef") != "" {
		return ""
	}
	return parts[1]
}

// Body returns the members of a worker's result that are its own, separated by
// commas.
func Body(result []byte) (string, error) {
	var out strings.Builder
	out.Grow(len(result))
	err := eachMember(result, func(key string, member, _ []byte) {
		if identityMembers[key] {
			return
		}
		if out.Len() > 0 {
			out.WriteByte(',')
		}
		out.Write(member)
	})
	return out.String(), err
}

// EmptyBody is the body, without its message, of a result that no worker made.
var EmptyBody = func() string {
	raw, err := json.Marshal(job.Result{})
	if err != nil {
		panic(err) // a struct of plain fields
	}
	body, err := Body(raw)
	if err != nil {
		panic(err)
	}
	return body
}()

// eachMember calls f for each member of the JSON object in raw: its name as written (without quotes), the whole member
// and its value. It does not check the insides of values: a JSON decoder has accepted raw before.
func eachMember(raw []byte, f func(key string, member, value []byte)) error {
	bad := fmt.Errorf("%w: not a JSON object", job.ErrInvalid)
	raw = bytes.TrimSpace(raw)
	if len(raw) < 2 || raw[0] != '{' || raw[len(raw)-1] != '}' {
		return bad
	}
	rest := bytes.TrimSpace(raw[1 : len(raw)-1])
	for len(rest) > 0 {
		keyEnd := valueEnd(rest)
		colon := bytes.IndexByte(rest[keyEnd:], ':')
		if rest[0] != '"' || keyEnd < 2 || colon < 0 {
			return bad
		}
		start := keyEnd + colon + 1
		for start < len(rest) && isSpace(rest[start]) {
			start++
		}
		end := start + valueEnd(rest[start:])
		if end == start {
			return bad
		}
		f(string(rest[1:keyEnd-1]), rest[:end], rest[start:end])
		rest = bytes.TrimLeft(rest[end:], " \t\r\n")
		if len(rest) == 0 {
			return nil
		}
		if rest[0] != ',' {
			return bad
		}
		if rest = bytes.TrimLeft(rest[1:], " \t\r\n"); len(rest) == 0 {
			return bad
		}
	}
	return nil
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// valueEnd returns where the JSON value at the start of b ends.
func valueEnd(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			if i = stringEnd(b, i); depth == 0 || i >= len(b) {
				return min(i+1, len(b))
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
	return len(b)
}

// stringEnd returns the index of the quote that closes the string opened at i.
func stringEnd(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return i
}
