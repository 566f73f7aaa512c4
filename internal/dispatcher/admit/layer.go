package admit

import (
	"bytes"
	"encoding/json"
)

// layer is a JSON object that other objects are merged over, parsed once.
type layer struct {
	raw     json.RawMessage
	members []member
	below   map[string]*layer // members that are objects
}

type member struct {
	name string
	raw  json.RawMessage
}

func newLayer(raw json.RawMessage) *layer {
	ms, ok := members(raw)
	if !ok {
		return nil
	}
	l := &layer{raw: raw, members: ms, below: map[string]*layer{}}
	for _, m := range ms {
		if sub := newLayer(m.raw); sub != nil {
			l.below[m.name] = sub
		}
	}
	return l
}

// under returns over with the members that only l has. Objects are merged member by member, and other values of over
// replace those of l. Other values than objects are returned unchanged, for the decoder to reject.
func (l *layer) under(over json.RawMessage) json.RawMessage {
	ms, ok := members(over)
	if !ok {
		return over
	}
	had := make(map[string]bool, len(ms))
	for i, m := range ms { // repeated members stay, for the decoder to reject
		had[m.name] = true
		if sub := l.below[m.name]; sub != nil {
			ms[i].raw = sub.under(m.raw)
		}
	}
	for _, m := range l.members {
		if !had[m.name] {
			ms = append(ms, m)
		}
	}
	return encode(ms)
}

// members splits a JSON object; ok is false if raw is not one.
func members(raw json.RawMessage) (ms []member, ok bool) {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	if len(raw) == 0 || raw[0] != '{' {
		return nil, false
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		return nil, false
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, false
		}
		m := member{name: name.(string)}
		if err := dec.Decode(&m.raw); err != nil {
			return nil, false
		}
		ms = append(ms, m)
	}
	if _, err := dec.Token(); err != nil || dec.InputOffset() != int64(len(bytes.TrimRight(raw, " \t\r\n"))) {
		return nil, false // incomplete, or more after its end
	}
	return ms, true
}

func encode(ms []member) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range ms {
		if i > 0 {
			b.WriteByte(',')
		}
		name, _ := json.Marshal(m.name) // strings always marshal
		b.Write(name)
		b.WriteByte(':')
		b.Write(m.raw)
	}
	b.WriteByte('}')
	return b.Bytes()
}
