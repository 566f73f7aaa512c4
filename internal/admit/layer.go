package admit

import (
	"bytes"
	"encoding/json"
)

// layer is a JSON object that others are laid over, parsed once.
type layer struct {
	raw     json.RawMessage
	members []member
	below   map[string]*layer // members that are objects themselves
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

// under returns the object over with what only l has added: objects are merged
// member by member, everything else is replaced. What is not an object is
// returned as it is; whoever decodes it will say what is wrong with it.
func (l *layer) under(over json.RawMessage) json.RawMessage {
	ms, ok := members(over)
	if !ok {
		return over
	}
	had := make(map[string]bool, len(ms))
	for i, m := range ms { // repeated members stay repeated: decoding refuses them
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
		return nil, false // cut short, or more after its end
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
		name, _ := json.Marshal(m.name) // a string always can be
		b.Write(name)
		b.WriteByte(':')
		b.Write(m.raw)
	}
	b.WriteByte('}')
	return b.Bytes()
}
