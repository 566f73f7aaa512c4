package format

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Bodies of results are large, but the text for lists is at their beginning or after a marker. Both are found without
// parsing a body: text of programs is in JSON strings, which escape the quotes of a marker. A program's value or test
// that is JSON itself may contain a marker; a list then shows that text.

// failedCase is SQL for the position in the record r at which its first failed case begins, and afterCase for the record
// from the outcome of that case on, as far as the next case.
const (
	failedCase = `strpos(r.body, ',"passed":false,"outcome":"')`
	afterCase  = `split_part(substr(r.body, ` + failedCase + ` + 27, 20000), '{"name":"', 1)`
)

// Failure is SQL for the failure class of the record r: its outcome or, if tests failed, the outcome of the first failed case.
const Failure = `CASE WHEN r.outcome = 'failed' AND ` + failedCase + ` > 0
	THEN coalesce(substring(substr(r.body, ` + failedCase + ` + 27, 20) FROM '^[a-z_]+'), r.outcome) ELSE r.outcome END`

// ReasonSQL is SQL for the input of Decode: in a few hundred characters, the reason why the record r is no success. If tests
// failed, it is the message of the first failed case. For successes it is their message, if any.
const ReasonSQL = `CASE
	WHEN r.outcome = 'failed' AND ` + failedCase + ` > 0 THEN
		't' || CASE WHEN strpos(r.body, ',"exception":{"type":"') > 0 THEN split_part(substr(r.body, strpos(r.body, ',"exception":{"type":"') + 22, 256), '"', 1) ELSE '' END
		|| ' ' || substr(` + afterCase + `, greatest(strpos(` + afterCase + `, ',"message":"'), 1), 1000)
	WHEN r.outcome <> 'succeeded' AND strpos(r.body, ',"exception":{"type":"') > 0 THEN 'e' || substr(r.body, strpos(r.body, ',"exception":{"type":"') + 22, 1000)
	WHEN left(r.body, 11) = '"message":"' THEN 'm' || substr(r.body, 12, 1000)
	WHEN r.outcome = 'succeeded' THEN ''
	WHEN left(r.body, 12) = '"exit_code":' THEN 'xexit code ' || substr(r.body, 13, 8)
	WHEN left(r.body, 10) = '"signal":"' THEN 's' || substr(r.body, 11, 20)
	ELSE '' END`

// Image is SQL for the image that the spec s names.
const Image = `coalesce(CASE WHEN strpos(s.spec, '"program":{') > 0
	THEN (rtrim(left(s.spec, strpos(s.spec, '"program":{') - 1), ', ') || '}')::jsonb ->> 'image' END, '')`

// Decode parses the result of ReasonSQL into the type of an exception, if any, and the message.
func Decode(said string) (exception, message string) {
	if said == "" {
		return "", ""
	}
	rest := said[1:]
	switch said[0] {
	case 'm':
		message, _ = cutString(rest)
	case 'e':
		exception, rest = cutString(rest)
		if rest, ok := strings.CutPrefix(rest, `,"message":"`); ok {
			message, _ = cutString(rest)
		}
	case 't':
		exception, rest, _ = strings.Cut(rest, " ")
		if _, after, ok := strings.Cut(rest, `"message":"`); ok {
			message, _ = cutString(after)
		}
		if !strings.Contains(message, exception) { // a later case raised it
			exception = ""
		}
	case 'x':
		message, _, _ = strings.Cut(rest, ",")
	case 's':
		message, _ = cutString(rest)
	}
	return exception, message
}

// cutString decodes a JSON string without its first quote and perhaps without its end. It returns the text and the rest
// after it.
func cutString(b string) (text, rest string) {
	end := stringEnd([]byte(b), -1)
	if end < len(b) {
		rest = b[end+1:]
	} else {
		end = wholeEscapes(b)
	}
	if json.Unmarshal([]byte(`"`+b[:end]+`"`), &text) != nil {
		text = strings.ToValidUTF8(b[:end], string(utf8.RuneError))
	}
	return text, rest
}

// wholeEscapes returns how much of b there is before an escape that was cut.
func wholeEscapes(b string) int {
	for i := 0; i < len(b); i++ {
		n := 1
		if b[i] == '\\' {
			if n = 2; i+1 < len(b) && b[i+1] == 'u' {
				n = 6
			}
			if i+n > len(b) {
				return i
			}
		}
		i += n - 1
	}
	return len(b)
}

// Name returns the name in an identity, if it is the first of it.
func Name(identity string) (name string) {
	if rest, ok := strings.CutPrefix(identity, `"name":"`); ok {
		name, _ = cutString(rest)
	}
	return name
}
