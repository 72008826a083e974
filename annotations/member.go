package annotations

import (
	"fmt"
	"slices"
)

// A Member is a member of a JSON object that this package does not know, or
// whose value has another type than it knows. Decoders keep such members and
// encoders write them back, so that a value written by a newer version passes
// through an older one unharmed.
type Member struct {
	// Name is the member's name.
	Name string
	// Value is the JSON text of its value, as it was found.
	Value string
}

// keep reads the value of a member and adds it to the kept ones.
func (p *scanner) keep(members []Member, name string) ([]Member, error) {
	if len(members) == maxUnknown {
		return nil, fmt.Errorf("more than %d unknown members", maxUnknown)
	}
	value, err := p.raw()
	if err != nil {
		return nil, err
	}
	return append(members, Member{Name: name, Value: value}), nil
}

// appendMembers appends kept members. written reports whether the encoder has
// itself written a member of that name.
func appendMembers(b []byte, members []Member, written func(name string) bool) ([]byte, error) {
	if len(members) > maxUnknown {
		return nil, fmt.Errorf("%d unknown members, want at most %d", len(members), maxUnknown)
	}
	for i, m := range members {
		if err := checkText("member name", m.Name); err != nil {
			return nil, err
		}
		if written(m.Name) || slices.ContainsFunc(members[:i], func(o Member) bool { return o.Name == m.Name }) {
			return nil, fmt.Errorf("member %s is there twice", quote(m.Name))
		}
		value := newScanner(m.Value)
		if err := value.last(value.skip(0)); err != nil {
			return nil, fmt.Errorf("member %s: %w", quote(m.Name), err)
		}
		b = append(appendKey(b, m.Name), m.Value...)
	}
	return b, nil
}
